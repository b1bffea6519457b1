#include "phalanx/rendezvous/join_attempt.h"

#include <unistd.h>

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/rendezvous/identity.h"

namespace phalanx::rendezvous {

JoinRequest join_request(const LaunchEnvironment& environment, const std::string& session_name,
                         std::uint64_t last_received) {
  return {environment.world_size,
          environment.node,
          environment.local_rank,
          environment.local_size,
          static_cast<int>(::getpid()),
          host_name(),
          own_machine(),
          session_name,
          last_received};
}

JoinAttempt::JoinAttempt(std::shared_ptr<Link> link, const Secret& secret, const Hello& hello,
                         const JoinRequest& request, Session& session)
    : link_(std::move(link)), handshake_(secret, hello), request_(request), session_(session) {}

JoinAttempt::~JoinAttempt() {
  if (link_) link_->close();
}

void JoinAttempt::start() {
  link_->start([this](std::string_view bytes) { on_bytes(bytes); },
               [this](const ConnectionEnd& end) { end_ = end; });
  link_->send_raw(handshake_.start());
}

void JoinAttempt::on_bytes(std::string_view bytes) {
  if (handshake_.state() == HandshakeState::kFailed) return;
  if (handshake_.state() == HandshakeState::kPending) {
    link_->send_raw(handshake_.receive(bytes));
    if (handshake_.state() != HandshakeState::kDone) return;
    link_->seal_with(handshake_.keys().of_client);
    opener_.emplace(handshake_.keys().of_server, kLongestOfCoordinator);
    opener_->feed(handshake_.rest());
    link_->send(std::make_shared<const std::string>(encode(request_)), 0);
  } else {
    opener_->feed(bytes);
  }
  on_messages();
}

void JoinAttempt::on_messages() {
  while (!welcome_ && !refusal_) {
    const std::optional<OpenedMessage> message = opener_->next();
    if (!message) return;
    session_.confirm(message->numbers.last_received);
    if (message->numbers.number != 0 && !session_.accept(message->numbers.number)) continue;
    link_->set_last_received(session_.last_received());
    on_message(decode(message->text));
  }
}

void JoinAttempt::on_message(const ControlMessage& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcome_ = *welcome;
  } else if (const auto* refusal = std::get_if<Refusal>(&message)) {
    refusal_ = *refusal;
  } else if (const auto* ping = std::get_if<Ping>(&message)) {
    roll_call_ = ping->waiting;
  } else {
    throw UnavailableError("it speaks out of turn");
  }
}

std::shared_ptr<Link> JoinAttempt::take_link() {
  link_->hand_over(nullptr, nullptr);
  return std::exchange(link_, nullptr);
}

FrameOpener JoinAttempt::take_opener() {
  PHALANX_CHECK(opener_, "no message has come");
  return std::move(*opener_);
}

}  // namespace phalanx::rendezvous
