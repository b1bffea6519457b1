#pragma once
// A socket between a member and the coordinator, TCP or Unix: bytes of the handshake, then sealed
// messages. Used by the thread alone that runs its io_context. For connection.cc and those that
// include it alone: asio takes the compiler long.

#include <array>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/comm/rendezvous/frame.h"

namespace phalanx::rendezvous {

using Socket = asio::generic::stream_protocol::socket;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Of what arrives: any bytes, in order. What it throws ends the connection.
  using OnBytes = std::function<void(std::string_view bytes)>;
  // It has ended, and not by close(). Once.
  using OnEnd = std::function<void(const std::string& how)>;

  explicit Connection(Socket socket);

  void start(OnBytes on_bytes, OnEnd on_end);
  // Others to be called, from now on.
  void hand_over(OnBytes on_bytes, OnEnd on_end);
  // As it is: the handshake.
  void send_raw(std::string bytes);
  // From here on messages are sealed with this key.
  void seal_with(const Key& key) { sealer_.emplace(key); }
  void send(std::shared_ptr<const std::string> message);
  // Whether everything has been given to the kernel.
  bool all_sent() const { return queue_.empty() || broken_; }
  // When what was sent is with the kernel.
  void close_when_sent();
  void close();
  bool is_open() const { return socket_.is_open(); }

 private:
  struct Outgoing {
    std::shared_ptr<const std::string> bytes;
    bool sealed;
    std::size_t offset = 0;
  };

  void read();
  void take(const asio::error_code& error, std::size_t size);
  void write();
  void written(const asio::error_code& error);
  void end(const std::string& how);
  // Nothing can be written any more: the end is the reading side's.
  void break_off(const char* why) noexcept;

  Socket socket_;
  OnBytes on_bytes_{};
  OnEnd on_end_{};
  std::optional<FrameSealer> sealer_{};
  std::deque<Outgoing> queue_{};
  std::string chunk_{};  // on its way
  bool writing_ = false;
  bool broken_ = false;  // nothing can be written any more
  std::string fault_{};  // why, where that is this end's fault
  bool close_when_sent_ = false;
  std::array<char, 16384> buffer_{};
};

// A peer that is gone without a word is noticed within three seconds (keepalive, TCP_USER_TIMEOUT),
// and small messages do not wait for more. Nothing for Unix sockets.
void set_options(Socket& socket);
// Who is at the other end: "10.0.0.3" (without the port) or "a process of user 1000".
std::string address_of(Socket& socket);
// On a Unix socket: whether the peer is this user's or root's; true for TCP.
bool is_trusted_user(Socket& socket);
// The network interface that carries the socket's own address; empty for Unix sockets.
std::string interface_of(Socket& socket);

}  // namespace phalanx::rendezvous
