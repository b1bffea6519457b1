#pragma once
// How a member joins: it resolves the coordinator's name, connects, gets the secret where it has
// none, makes an attempt (join_attempt.h), and tries again until the join timeout. It runs on the
// caller's thread. Includes asio.

#include <asio/io_context.hpp>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/join_attempt.h"
#include "phalanx/rendezvous/member.h"

namespace phalanx::rendezvous {

struct JoinedOverSocket {
  Joined joined;
  Socket::endpoint_type address;  // the coordinator's
};

// Errors as in Member::join().
JoinedOverSocket join_coordinator(asio::io_context& context, const MemberOptions& options);

}  // namespace phalanx::rendezvous
