#pragma once
// A socket between a member and the coordinator, TCP or Unix: it carries the bytes of the
// handshake, then sealed messages. Only the thread that runs its io_context may use it. Includes
// asio, which is slow to compile.

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
  // Gets the bytes that arrive, in order, in pieces of any size. An exception ends the connection.
  using OnBytes = std::function<void(std::string_view bytes)>;
  // Called once when the connection has ended otherwise than by close().
  using OnEnd = std::function<void(const ConnectionEnd& end)>;

  explicit Connection(Socket socket);

  void start(OnBytes on_bytes, OnEnd on_end);
  // Replaces the functions to call.
  void hand_over(OnBytes on_bytes, OnEnd on_end);
  // Sends bytes unsealed, for the handshake.
  void send_raw(std::string bytes);
  // The key for all messages from now on.
  void seal_with(const Key& key) { sealer_.emplace(key); }
  // A message without a number (0) goes before the numbered ones that are waiting.
  void send(std::shared_ptr<const std::string> message, std::uint64_t number = 0);
  // The number of the other end's last message: it is confirmed with every message that is sent.
  void set_last_received(std::uint64_t number) { last_received_ = number; }
  // Makes the kernel end a TCP connection whose other end does not answer, a little before the end
  // of the limit of silence.
  void set_silence_limit(std::chrono::milliseconds limit);
  // Whether the other end may outlive the connection: a Unix socket ends only with its process.
  bool is_over_network() const { return is_over_network_; }
  // Whether the kernel has taken everything that was sent.
  bool all_sent() const { return queue_.empty() || broken_; }
  // Closes when all_sent().
  void close_when_sent();
  void close();
  bool is_open() const { return socket_.is_open(); }
  // Whether the process at the other end of a Unix socket is stopped.
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
  // Gives up writing because of an own fault; reading then reports the end.
  void break_off(const char* why) noexcept;

  Socket socket_;
  OnBytes on_bytes_{};
  OnEnd on_end_{};
  bool is_over_network_ = false;
  std::chrono::milliseconds patience_{};  // how long the kernel waits for an answer
  std::optional<FrameSealer> sealer_{};
  std::uint64_t last_received_ = 0;
  std::deque<Outgoing> queue_{};
  std::string chunk_{};  // that is being written
  bool writing_ = false;
  bool broken_ = false;  // nothing can be written any more
  std::string fault_{};  // why, if this end is at fault
  bool close_when_sent_ = false;
  std::array<char, 16384> buffer_{};
};

// How long the kernel waits for an answer, given the limit of silence: less, so that the end of the
// connection is seen before the limit is.
std::chrono::milliseconds patience_of(std::chrono::milliseconds silence);
// The other end: "10.0.0.3" (without the port) or "a process of user 1000".
std::string address_of(Socket& socket);
// Whether the process at the other end of a Unix socket is this user's or root's; true for TCP.
bool is_trusted_user(Socket& socket);
// The network interface that carries the socket's own address; empty for Unix sockets.
std::string interface_of(Socket& socket);

}  // namespace phalanx::rendezvous
