#pragma once
// How a member joins: it resolves the coordinator's name, connects, proves that it knows the
// secret, asks to join, and waits for the others. It tries again until the join timeout. It runs on
// the caller's thread. Includes asio.

#include <asio/io_context.hpp>
#include <memory>
#include <string>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/session.h"

namespace phalanx::rendezvous {

struct Joined {
  std::shared_ptr<Connection> connection;  // its functions are not set yet
  FrameOpener opener;                      // may hold more messages
  Session session;                         // that continues over the connection
  std::string session_name;
  Socket::endpoint_type address;  // the coordinator's
  Secret secret;                  // the given one, or MUNGE's
  Welcome welcome;
  std::string device;  // the network interface of the connection; empty for a Unix socket
};

// The request of a member that joins or reconnects.
JoinRequest join_request(const LaunchEnvironment& environment, const std::string& session_name,
                         std::uint64_t last_received);

// Errors as in Member::join().
Joined join_coordinator(asio::io_context& context, const MemberOptions& options);

}  // namespace phalanx::rendezvous
