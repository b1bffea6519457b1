#pragma once
// One try of a member whose connection is lost to come back to its coordinator over another one: it
// connects, proves again that it knows the secret, and asks to go on with its session. Beside the
// member's other work, on its thread. Includes asio.

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

class Comeback : public std::enable_shared_from_this<Comeback> {
 public:
  struct Setup {
    Socket::endpoint_type address;
    Secret secret;
    Hello hello;
    JoinRequest request;
  };
  // The coordinator has taken it: the connection, which calls nobody yet, and what has come over
  // it.
  using OnDone = std::function<void(std::shared_ptr<Connection> connection, FrameOpener opener)>;
  // `is_final`: there is no coordinator any more, or it does not want this member.
  using OnFailure = std::function<void(const std::string& how, bool is_final)>;

  Comeback(asio::io_context& context, Setup setup);
  Comeback(const Comeback&) = delete;
  Comeback& operator=(const Comeback&) = delete;
  ~Comeback() = default;

  // One of the two is called, once, unless stop() is called before.
  void start(OnDone on_done, OnFailure on_failure);
  void stop();

 private:
  void connected(const asio::error_code& error);
  void hear(std::string_view bytes);
  void hear_handshake(std::string_view bytes);
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
