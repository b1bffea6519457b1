#pragma once
// A socket between a member and the coordinator, TCP or Unix: bytes of the handshake, then sealed
// messages. Used by the thread alone that runs its io_context. For connection.cc and those that
// include it alone: asio takes the compiler long.

#include <array>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/connection_end.h"
#include "phalanx/rendezvous/frame.h"

namespace phalanx::rendezvous {

using Socket = asio::generic::stream_protocol::socket;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Of what arrives: any bytes, in order. What it throws ends the connection.
  using OnBytes = std::function<void(std::string_view bytes)>;
  // It has ended, and not by close(). Once.
  using OnEnd = std::function<void(const ConnectionEnd& end)>;

  explicit Connection(Socket socket);

  void start(OnBytes on_bytes, OnEnd on_end);
  // Others to be called, from now on.
  void hand_over(OnBytes on_bytes, OnEnd on_end);
  // As it is: the handshake.
  void send_raw(std::string bytes);
  // From here on messages are sealed with this key.
  void seal_with(const Key& key) { sealer_.emplace(key); }
  void send(std::shared_ptr<const std::string> message, std::uint64_t number = 0);
  // Up to which number the other end's messages have come: told with every message.
  void set_heard(std::uint64_t number) { heard_ = number; }
  // An end that answers nothing is given up a little before it would be taken for dead: who says
  // nothing for `silence` is. Nothing for Unix sockets.
  void set_silence(std::chrono::milliseconds silence);
  // Whether another one can take its place: a Unix socket ends with the process at its end.
  bool is_over_network() const { return is_over_network_; }
  // Whether everything has been given to the kernel.
  bool all_sent() const { return queue_.empty() || broken_; }
  // When what was sent is with the kernel.
  void close_when_sent();
  void close();
  bool is_open() const { return socket_.is_open(); }
  // Of a process of this host, over a Unix socket, whether it is stopped.
  bool peer_is_stopped();

 private:
  struct Outgoing {
    std::shared_ptr<const std::string> bytes;
    bool sealed;
    std::uint64_t number = 0;
    std::size_t offset = 0;
  };

  void read();
  void take(const asio::error_code& error, std::size_t size);
  void write();
  void written(const asio::error_code& error);
  void end(const ConnectionEnd& end);
  // Nothing can be written any more: the end is the reading side's.
  void break_off(const char* why) noexcept;

  Socket socket_;
  OnBytes on_bytes_{};
  OnEnd on_end_{};
  bool is_over_network_ = false;
  std::chrono::milliseconds patience_{};  // of the kernel with what is not answered
  std::optional<FrameSealer> sealer_{};
  std::uint64_t heard_ = 0;
  std::deque<Outgoing> queue_{};
  std::string chunk_{};  // on its way
  bool writing_ = false;
  bool broken_ = false;  // nothing can be written any more
  std::string fault_{};  // why, where that is this end's fault
  bool close_when_sent_ = false;
  std::array<char, 16384> buffer_{};
};

// Of a silence that ends a member, so long the kernel waits for an answer: the rest is for the
// connection's end to be heard as such.
std::chrono::milliseconds patience_of(std::chrono::milliseconds silence);
// Who is at the other end: "10.0.0.3" (without the port) or "a process of user 1000".
std::string address_of(Socket& socket);
// On a Unix socket: whether the peer is this user's or root's; true for TCP.
bool is_trusted_user(Socket& socket);
// The network interface that carries the socket's own address; empty for Unix sockets.
std::string interface_of(Socket& socket);

}  // namespace phalanx::rendezvous
