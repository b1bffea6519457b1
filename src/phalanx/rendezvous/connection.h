#pragma once
// A link over a socket between a member and the coordinator, TCP or Unix. Only the thread that runs
// its io_context may use it. Includes asio, which is slow to compile.

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
#include "phalanx/rendezvous/link.h"

namespace phalanx::rendezvous {

using Socket = asio::generic::stream_protocol::socket;

class Connection final : public Link, public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Socket socket);

  void start(OnBytes on_bytes, OnEnd on_end) override;
  void hand_over(OnBytes on_bytes, OnEnd on_end) override;
  void send_raw(std::string bytes) override;
  void seal_with(const Key& key) override { sealer_.emplace(key); }
  void send(std::shared_ptr<const std::string> message, std::uint64_t number) override;
  void set_last_received(std::uint64_t number) override { last_received_ = number; }
  void set_silence_limit(std::chrono::milliseconds limit) override;
  bool is_over_network() const override { return is_over_network_; }
  bool all_sent() const override { return queue_.empty() || broken_; }
  void close_when_sent() override;
  void close() override;
  bool is_open() const override { return socket_.is_open(); }
  bool peer_is_stopped() override;

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
