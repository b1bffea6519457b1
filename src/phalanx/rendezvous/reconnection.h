#pragma once
// One attempt of a member whose connection is lost to reach its coordinator over another one: it
// connects, proves again that it knows the secret, and asks to resume its session. It runs on the
// member's thread without blocking it. Includes asio.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/connection.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

class Reconnection : public std::enable_shared_from_this<Reconnection> {
 public:
  struct Setup {
    Socket::endpoint_type address;
    Secret secret;
    Hello hello;
    JoinRequest request;
  };
  // The coordinator has accepted it: the connection, whose functions are not set yet, and the
  // messages that have come over it.
  using OnDone = std::function<void(std::shared_ptr<Connection> connection, FrameOpener opener)>;
  // `is_final`: there is no coordinator any more, or it refuses this member.
  using OnFailure = std::function<void(const std::string& how, bool is_final)>;

  Reconnection(asio::io_context& context, Setup setup);
  Reconnection(const Reconnection&) = delete;
  Reconnection& operator=(const Reconnection&) = delete;
  ~Reconnection() = default;

  // Calls one of the two functions, once, unless stop() is called before.
  void start(OnDone on_done, OnFailure on_failure);
  void stop();

 private:
  void on_connected(const asio::error_code& error);
  void on_bytes(std::string_view bytes);
  void on_handshake_bytes(std::string_view bytes);
  void fail(const std::string& how, bool is_final);

  Setup setup_;
  std::shared_ptr<Socket> socket_;
  ClientHandshake handshake_;
  std::shared_ptr<Connection> connection_{};
  std::optional<FrameOpener> opener_{};
  OnDone on_done_{};
  OnFailure on_failure_{};
};

}  // namespace phalanx::rendezvous
