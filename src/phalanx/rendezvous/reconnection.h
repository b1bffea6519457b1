#pragma once
// One attempt of a member whose connection is lost to reach its coordinator over another one: it
// dials, proves again that it knows the secret, and asks to resume its session. It has no socket.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/handshake.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

class Reconnection : public std::enable_shared_from_this<Reconnection> {
 public:
  struct Setup {
    Secret secret;
    Hello hello;
    JoinRequest request;
  };
  // The coordinator has accepted it: the link, whose functions are not set yet, and the messages
  // that have come over it.
  using OnDone = std::function<void(std::shared_ptr<Link> link, FrameOpener opener)>;
  // `is_final`: there is no coordinator any more, or it refuses this member.
  using OnFailure = std::function<void(const std::string& how, bool is_final)>;

  // The dialer must outlive it until stop(), or one of the two functions is called.
  Reconnection(Dialer& dialer, Setup setup);
  Reconnection(const Reconnection&) = delete;
  Reconnection& operator=(const Reconnection&) = delete;
  ~Reconnection() = default;

  // Calls one of the two functions, once, unless stop() is called before.
  void start(OnDone on_done, OnFailure on_failure);
  void stop();

 private:
  void on_answer(Dialer::Answer answer);
  void on_bytes(std::string_view bytes);
  void on_handshake_bytes(std::string_view bytes);
  void fail(const std::string& how, bool is_final);

  Dialer& dialer_;
  Setup setup_;
  ClientHandshake handshake_;
  std::shared_ptr<Link> link_{};
  std::optional<FrameOpener> opener_{};
  OnDone on_done_{};
  OnFailure on_failure_{};
};

}  // namespace phalanx::rendezvous
