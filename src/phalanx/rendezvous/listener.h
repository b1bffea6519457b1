#pragma once
// The sockets on which the coordinator listens: a Unix socket in the abstract namespace, or one for
// each TCP address of the endpoint's host, which must be this machine's. Includes asio.

#include <asio/basic_socket_acceptor.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <vector>

#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx::rendezvous {

using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

struct Listener {
  Endpoint endpoint;  // with the port that it got
  std::vector<Acceptor> acceptors;
};

// UnavailableError (69) if the port or name is taken, or the host's name cannot be resolved;
// ConfigError (78) if the address is not this machine's.
Listener listen(asio::io_context& context, const Endpoint& endpoint, bool bind_any);

}  // namespace phalanx::rendezvous
