#include "phalanx/rendezvous/connection.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/identity.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {
namespace {

constexpr int kKeepaliveSeconds = 1;

void set_option(Socket& socket, int level, int name, int value) {
  // An option that the kernel does not have is not needed.
  ::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

// The bytes of the address without its port; empty if it is neither IPv4 nor IPv6.
std::string_view internet_address(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    const auto* inet = reinterpret_cast<const sockaddr_in*>(address);
    return {reinterpret_cast<const char*>(&inet->sin_addr), sizeof(inet->sin_addr)};
  }
  if (address->sa_family == AF_INET6) {
    const auto* inet = reinterpret_cast<const sockaddr_in6*>(address);
    const auto* bytes = reinterpret_cast<const char*>(&inet->sin6_addr);
    // An IPv4 address on a socket for both families.
    if (IN6_IS_ADDR_V4MAPPED(&inet->sin6_addr)) return {bytes + 12, 4};
    return {bytes, sizeof(inet->sin6_addr)};
  }
  return {};
}

ConnectionEnd how_it_ended(const asio::error_code& error, std::chrono::milliseconds patience) {
  using enum ConnectionEnd::Kind;
  if (error == asio::error::eof) return {kClosed, "its connection was closed"};
  if (error == asio::error::connection_reset) return {kClosed, "its connection was reset"};
  if (error == asio::error::timed_out) {
    return {kCut, fmt::format("its connection was cut (no answer for {:.3g} s)",
                              std::chrono::duration<double>(patience).count())};
  }
  return {kCut, "its connection broke: " + error.message()};
}

}  // namespace

std::chrono::milliseconds patience_of(std::chrono::milliseconds silence) {
  return silence - std::min<std::chrono::milliseconds>(kMostBeforeConnectionEnd, silence / 4);
}

Connection::Connection(Socket socket) : socket_(std::move(socket)) {
  const int family = socket_.local_endpoint().protocol().family();
  is_over_network_ = family == AF_INET || family == AF_INET6;
  if (!is_over_network_) return;
  // Small messages are sent at once.
  set_option(socket_, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds);
  set_silence_limit(kFirstSilenceLimit);
}

void Connection::set_silence_limit(std::chrono::milliseconds limit) {
  const std::chrono::milliseconds patience = patience_of(limit);
  if (!is_over_network_ || !is_open() || patience == patience_) return;
  patience_ = patience;
  // The user timeout holds while sent data is unconfirmed, the number of probes otherwise.
  constexpr std::int64_t kMostProbes = 127;
  const std::int64_t probes = patience / std::chrono::seconds(kKeepaliveSeconds);
  set_option(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.count()));
  set_option(socket_, IPPROTO_TCP, TCP_KEEPCNT,
             static_cast<int>(std::clamp<std::int64_t>(probes, 1, kMostProbes)));
}

void Connection::start(OnBytes on_bytes, OnEnd on_end) {
  hand_over(std::move(on_bytes), std::move(on_end));
  read();
}

void Connection::hand_over(OnBytes on_bytes, OnEnd on_end) {
  on_bytes_ = std::move(on_bytes);
  on_end_ = std::move(on_end);
}

void Connection::read() {
  socket_.async_read_some(
      asio::buffer(buffer_),
      [self = shared_from_this()](const asio::error_code& error, std::size_t size) {
        self->take(error, size);
      });
}

// An exception ends this connection only, not the others of the thread.
void Connection::take(const asio::error_code& error, std::size_t size) {
  if (error) return end(how_it_ended(error, patience_));
  // A copy, because the function may close the connection, which destroys the original.
  const OnBytes on_bytes = on_bytes_;
  if (!on_bytes) return;
  try {
    on_bytes({buffer_.data(), size});
    if (is_open()) read();
  } catch (const std::exception& failure) {
    end({ConnectionEnd::Kind::kFault, std::string("its connection was ended: ") + failure.what()});
  }
}

void Connection::send_raw(std::string bytes) {
  if (bytes.empty()) return;
  queue_.push_back({std::make_shared<const std::string>(std::move(bytes)), false});
  write();
}

void Connection::send(std::shared_ptr<const std::string> message, std::uint64_t number) {
  if (broken_ || !is_open()) return;
  auto place = queue_.end();
  if (number == 0) {
    // A message without a number belongs to no sequence, and does not wait behind long texts.
    const bool is_begun = writing_ || (!queue_.empty() && queue_.front().offset > 0);
    place = std::find_if(queue_.begin() + (is_begun ? 1 : 0), queue_.end(),
                         [](const Outgoing& each) { return each.sealed && each.number != 0; });
  }
  queue_.insert(place, {std::move(message), true, number});
  write();
}

void Connection::break_off(const char* why) noexcept {
  broken_ = true;
  queue_.clear();
  try {
    fault_ = why;
  } catch (const std::exception&) {
    fault_.clear();
  }
  asio::error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
}

// One frame at a time, so that a message for a thousand members is in memory once. An error ends
// this connection only: the caller may be sending to many.
void Connection::write() {
  if (writing_ || queue_.empty() || !is_open()) return;
  try {
    Outgoing& next = queue_.front();
    if (next.sealed) {
      PHALANX_CHECK(sealer_, "a message before the handshake's end");
      chunk_ = sealer_->seal(*next.bytes, next.offset, {next.number, last_received_});
    } else {
      chunk_ = *next.bytes;
      next.offset = chunk_.size();
    }
    writing_ = true;
    asio::async_write(socket_, asio::buffer(chunk_),
                      [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                        self->written(error);
                      });
  } catch (const std::exception& failure) {
    writing_ = false;
    break_off(failure.what());
  }
}

void Connection::written(const asio::error_code& error) {
  writing_ = false;
  if (error) {
    // The peer's last messages may still be waiting to be read: reading reports the end.
    broken_ = true;
    queue_.clear();
  } else if (!queue_.empty() && queue_.front().offset == queue_.front().bytes->size()) {
    queue_.pop_front();
  }
  write();
  if (close_when_sent_ && all_sent()) close();
}

void Connection::close_when_sent() {
  close_when_sent_ = true;
  on_bytes_ = nullptr;
  on_end_ = nullptr;
  if (all_sent()) close();
}

void Connection::close() {
  on_bytes_ = nullptr;
  on_end_ = nullptr;
  asio::error_code ignored;
  if (socket_.is_open()) {
    socket_.shutdown(Socket::shutdown_both, ignored);
    socket_.close(ignored);
  }
}

bool Connection::peer_is_stopped() {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  return ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) ==
             0 &&
         credentials.pid > 0 && is_stopped_process(credentials.pid);
}

void Connection::end(const ConnectionEnd& end) {
  const OnEnd on_end = std::exchange(on_end_, nullptr);
  close();
  if (!on_end) return;
  if (fault_.empty()) return on_end(end);
  on_end({ConnectionEnd::Kind::kFault, "its connection was ended: " + fault_});
}

std::string address_of(Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(socket.native_handle(), address, &size) != 0) return "a peer that is gone";
  const std::string_view bytes = internet_address(address);
  if (!bytes.empty()) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
    return text.data();
  }
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return "a process of this host";
  }
  return fmt::format("a process of user {}", credentials.uid);
}

bool is_trusted_user(Socket& socket) {
  const int family = socket.local_endpoint().protocol().family();
  if (family == AF_INET || family == AF_INET6) return true;
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  return ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) ==
             0 &&
         (credentials.uid == ::geteuid() || credentials.uid == 0);
}

std::string interface_of(Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* own = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(socket.native_handle(), own, &size) != 0) return {};
  const std::string_view address = internet_address(own);
  if (address.empty()) return {};
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(all, ::freeifaddrs);
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (internet_address(entry->ifa_addr) == address) return entry->ifa_name;
  }
  // An address of 127.0.0.0/8 that the interface does not list.
  const bool loopback = address.size() == 4 && address[0] == 127;
  return loopback ? "lo" : "";
}

}  // namespace phalanx::rendezvous
