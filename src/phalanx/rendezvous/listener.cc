#include "phalanx/rendezvous/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/local/stream_protocol.hpp>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/rendezvous/port_holder.h"

namespace phalanx::rendezvous {
namespace {

using asio::ip::tcp;

constexpr int kBacklog = 4096;

[[noreturn]] void fail_taken(const Endpoint& endpoint) {
  const std::string holder = port_holder(endpoint);
  const std::string by = holder.empty() ? "by another process" : "by " + holder;
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    throw UnavailableError(
        "the name {} is taken {}: another run with this port and run id? Give this one another "
        "(--master-port, --rdzv-id)",
        endpoint.to_text(), by);
  }
  throw UnavailableError("port {} of {} is taken {}: give another (--master-port, MASTER_PORT)",
                         endpoint.port, endpoint.host, by);
}

Acceptor open(asio::io_context& context, const asio::generic::stream_protocol::endpoint& address,
              bool both_families, asio::error_code& error) {
  Acceptor acceptor(context);
  acceptor.open(address.protocol(), error);
  if (error) return acceptor;
  if (address.protocol().family() != AF_UNIX) {
    acceptor.set_option(Acceptor::reuse_address(true), error);
  }
  if (address.protocol().family() == AF_INET6) {
    acceptor.set_option(asio::ip::v6_only(!both_families), error);
  }
  acceptor.bind(address, error);
  if (!error) acceptor.listen(kBacklog, error);
  return acceptor;
}

// Whether an address is neither private, nor link-local, nor of the loopback.
bool is_public(const asio::ip::address& address) {
  if (address.is_loopback() || address.is_unspecified()) return false;
  if (address.is_v6()) {
    const auto bytes = address.to_v6().to_bytes();
    const bool local = bytes[0] == 0xfc || bytes[0] == 0xfd;
    return !local && !address.to_v6().is_link_local();
  }
  const auto bytes = address.to_v4().to_bytes();
  const bool is_private = bytes[0] == 10 || (bytes[0] == 172 && (bytes[1] & 0xf0U) == 16) ||
                          (bytes[0] == 192 && bytes[1] == 168) ||
                          (bytes[0] == 169 && bytes[1] == 254) ||
                          (bytes[0] == 100 && (bytes[1] & 0xc0U) == 64);
  return !is_private;
}

std::vector<tcp::endpoint> addresses_of(asio::io_context& context, const Endpoint& endpoint) {
  tcp::resolver resolver(context);
  asio::error_code error;
  const auto found =
      resolver.resolve(endpoint.host, std::to_string(endpoint.port), tcp::resolver::passive, error);
  if (error) {
    throw UnavailableError(
        "the host name {} cannot be resolved ({}): is MASTER_ADDR (--master-addr) right?",
        endpoint.host, error.message());
  }
  std::set<tcp::endpoint> seen;
  std::vector<tcp::endpoint> addresses;
  for (const auto& entry : found) {
    if (seen.insert(entry.endpoint()).second) addresses.push_back(entry.endpoint());
  }
  return addresses;
}

void set_port(tcp::endpoint& address, int port) { address.port(static_cast<std::uint16_t>(port)); }

int port_of(const Acceptor& acceptor) {
  const auto local = acceptor.local_endpoint();
  tcp::endpoint address;
  address.resize(local.size());
  std::copy_n(reinterpret_cast<const char*>(local.data()), local.size(),
              reinterpret_cast<char*>(address.data()));
  return address.port();
}

void say_who_can_reach(const Endpoint& endpoint, const std::vector<tcp::endpoint>& bound) {
  asio::error_code error;
  const bool literal = (asio::ip::make_address(endpoint.host, error), !error);
  bool only_loopback = true;
  for (const tcp::endpoint& address : bound) {
    only_loopback = only_loopback && address.address().is_loopback();
    if (is_public(address.address())) {
      log_warning("the rendezvous listens on the public address {}: let a firewall keep others out",
                  address.address().to_string());
    }
  }
  if (only_loopback && !literal && endpoint.host != "localhost") {
    log_warning(
        "{} is {} on this host: other hosts cannot reach the rendezvous there; give an address of "
        "the network, or --rdzv-bind-any",
        endpoint.host, bound.front().address().to_string());
  }
}

Listener listen_everywhere(asio::io_context& context, const Endpoint& endpoint) {
  Listener listener{endpoint, {}};
  const auto port = static_cast<std::uint16_t>(endpoint.port);
  asio::error_code error;
  listener.acceptors.push_back(open(context, tcp::endpoint(tcp::v6(), port), true, error));
  if (error && error != asio::error::address_in_use) {
    // A host without IPv6.
    listener.acceptors.back() = open(context, tcp::endpoint(tcp::v4(), port), false, error);
  }
  if (error == asio::error::address_in_use) fail_taken(endpoint);
  if (error) throw UnavailableError("cannot listen on port {}: {}", port, error.message());
  listener.endpoint.port = port_of(listener.acceptors.back());
  return listener;
}

Listener listen_at_addresses(asio::io_context& context, const Endpoint& endpoint) {
  Listener listener{endpoint, {}};
  asio::error_code last;
  std::vector<tcp::endpoint> bound;
  for (tcp::endpoint address : addresses_of(context, endpoint)) {
    set_port(address, listener.endpoint.port);
    asio::error_code error;
    Acceptor acceptor = open(context, address, false, error);
    // If any port will do, an address on which the first address's port is taken is left out.
    if (error == asio::error::address_in_use && endpoint.port != 0) fail_taken(endpoint);
    if (error) {
      last = error;
      continue;
    }
    listener.endpoint.port = port_of(acceptor);
    listener.acceptors.push_back(std::move(acceptor));
    bound.push_back(address);
  }
  if (listener.acceptors.empty()) {
    throw ConfigError(
        "{} is not an address of this host ({}), and rank 0 or the first launcher listens there: "
        "MASTER_ADDR (--master-addr) names their host, or give --rdzv-bind-any",
        endpoint.host, last.message());
  }
  say_who_can_reach(endpoint, bound);
  return listener;
}

Listener listen_at_name(asio::io_context& context, const Endpoint& endpoint) {
  if (endpoint.name.empty() || endpoint.name.size() > sizeof(sockaddr_un::sun_path) - 2) {
    throw ConfigError("{}: a socket's name has 1 to {} bytes", endpoint.to_text(),
                      sizeof(sockaddr_un::sun_path) - 2);
  }
  const asio::local::stream_protocol::endpoint address('\0' + endpoint.name);
  Listener listener{endpoint, {}};
  asio::error_code error;
  listener.acceptors.push_back(open(context, address, false, error));
  if (error == asio::error::address_in_use) fail_taken(endpoint);
  if (error) throw SystemError("cannot listen on {}: {}", endpoint.to_text(), error.message());
  return listener;
}

}  // namespace

Listener listen(asio::io_context& context, const Endpoint& endpoint, bool bind_any) {
  if (endpoint.kind == Endpoint::Kind::kUnix) return listen_at_name(context, endpoint);
  return bind_any ? listen_everywhere(context, endpoint) : listen_at_addresses(context, endpoint);
}

}  // namespace phalanx::rendezvous
