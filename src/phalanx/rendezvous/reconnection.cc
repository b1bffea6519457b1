#include "phalanx/rendezvous/reconnection.h"

#include <utility>

namespace phalanx::rendezvous {

Reconnection::Reconnection(Dialer& dialer, Setup setup)
    : dialer_(dialer), setup_(std::move(setup)), handshake_(setup_.secret, setup_.hello) {}

void Reconnection::start(OnDone on_done, OnFailure on_failure) {
  on_done_ = std::move(on_done);
  on_failure_ = std::move(on_failure);
  dialer_.dial(
      [self = shared_from_this()](Dialer::Answer answer) { self->on_answer(std::move(answer)); });
}

void Reconnection::stop() {
  on_done_ = nullptr;
  on_failure_ = nullptr;
  dialer_.stop();
  if (link_) link_->close();
}

void Reconnection::fail(const std::string& how, bool is_final) {
  const OnFailure on_failure = std::exchange(on_failure_, nullptr);
  stop();
  if (on_failure) on_failure(how, is_final);
}

void Reconnection::on_answer(Dialer::Answer answer) {
  if (!on_failure_) return;
  // Its host answers that nothing listens there any more: the coordinator is gone.
  if (answer.is_refused) return fail("its port refuses connections", true);
  if (!answer.link) return fail(answer.problem, false);
  try {
    link_ = std::move(answer.link);
    link_->start(
        [self = shared_from_this()](std::string_view bytes) { self->on_bytes(bytes); },
        [self = shared_from_this()](const ConnectionEnd& end) { self->fail(end.how, false); });
    link_->send_raw(handshake_.start());
  } catch (const std::exception& failure) {
    fail(failure.what(), false);
  }
}

void Reconnection::on_handshake_bytes(std::string_view bytes) {
  link_->send_raw(handshake_.receive(bytes));
  if (handshake_.state() == HandshakeState::kFailed) {
    return fail("what answers at its address is another program, or another run's", false);
  }
  if (handshake_.state() != HandshakeState::kDone) return;
  link_->seal_with(handshake_.keys().of_client);
  opener_.emplace(handshake_.keys().of_server, kLongestOfCoordinator);
  opener_->feed(handshake_.rest());
  link_->set_last_received(setup_.request.last_received);
  link_->send(std::make_shared<const std::string>(encode(setup_.request)), 0);
}

void Reconnection::on_bytes(std::string_view bytes) {
  if (opener_) {
    opener_->feed(bytes);
  } else {
    on_handshake_bytes(bytes);
  }
  if (!opener_ || !on_done_) return;
  // The coordinator's first message is a refusal, or belongs to the session already.
  FrameOpener all = *opener_;
  const std::optional<OpenedMessage> first = opener_->next();
  if (!first) return;
  const ControlMessage message = decode(first->text);
  if (const auto* refusal = std::get_if<Refusal>(&message); refusal && first->numbers.number == 0) {
    return fail(refusal->text, !refusal->later);
  }
  const OnDone on_done = std::exchange(on_done_, nullptr);
  on_failure_ = nullptr;
  link_->hand_over(nullptr, nullptr);
  on_done(std::move(link_), std::move(all));
}

}  // namespace phalanx::rendezvous
