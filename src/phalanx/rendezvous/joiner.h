#pragma once
// A member's way to the coordinator: resolves its name, connects, proves that it knows the secret,
// asks to join, and waits for the others; again and again until the time is over. On the caller's
// thread. Includes asio.

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
  std::shared_ptr<Connection> connection;  // calls nobody yet
  FrameOpener opener;                      // may hold more messages
  Session session;                         // that goes on over it
  std::string session_name;
  Socket::endpoint_type address;  // where the coordinator was found
  Secret secret;                  // the given one, or MUNGE's
  Welcome welcome;
  std::string device;  // the network interface of the connection; empty for a Unix socket
};

// What a member says that joins, or comes again.
JoinRequest join_request(const LaunchEnvironment& environment, const std::string& session_name,
                         std::uint64_t heard);

// Errors as of Member::join().
Joined join_coordinator(asio::io_context& context, const MemberOptions& options);

}  // namespace phalanx::rendezvous
