#include "phalanx/rendezvous/comeback.h"

#include <asio/error.hpp>
#include <utility>

namespace phalanx::rendezvous {

Comeback::Comeback(asio::io_context& context, Setup setup)
    : setup_(std::move(setup)),
      socket_(std::make_shared<Socket>(context)),
      handshake_(setup_.secret, setup_.hello) {}

void Comeback::start(OnDone on_done, OnFailure on_failure) {
  on_done_ = std::move(on_done);
  on_failure_ = std::move(on_failure);
  socket_->async_connect(
      setup_.address,
      [self = shared_from_this()](const asio::error_code& error) { self->connected(error); });
}

void Comeback::stop() {
  on_done_ = nullptr;
  on_failure_ = nullptr;
  asio::error_code ignored;
  socket_->close(ignored);
  if (connection_) connection_->close();
}

void Comeback::fail(const std::string& how, bool is_final) {
  const OnFailure on_failure = std::exchange(on_failure_, nullptr);
  stop();
  if (on_failure) on_failure(how, is_final);
}

void Comeback::connected(const asio::error_code& error) {
  if (!on_failure_) return;
  // Nothing listens there, says its host: whoever did is gone.
  if (error == asio::error::connection_refused) return fail("its port refuses connections", true);
  if (error) return fail(error.message(), false);
  try {
    connection_ = std::make_shared<Connection>(std::move(*socket_));
    connection_->start(
        [self = shared_from_this()](std::string_view bytes) { self->hear(bytes); },
        [self = shared_from_this()](const ConnectionEnd& end) { self->fail(end.how, false); });
    connection_->send_raw(handshake_.start());
  } catch (const std::exception& failure) {
    fail(failure.what(), false);
  }
}

void Comeback::hear_handshake(std::string_view bytes) {
  connection_->send_raw(handshake_.receive(bytes));
  if (handshake_.state() == HandshakeState::kFailed) {
    return fail("what answers at its address is another program, or another run's", false);
  }
  if (handshake_.state() != HandshakeState::kDone) return;
  connection_->seal_with(handshake_.keys().of_client);
  opener_.emplace(handshake_.keys().of_server, kLongestOfCoordinator);
  opener_->feed(handshake_.rest());
  connection_->set_heard(setup_.request.heard);
  connection_->send(std::make_shared<const std::string>(encode(setup_.request)));
}

void Comeback::hear(std::string_view bytes) {
  if (opener_) {
    opener_->feed(bytes);
  } else {
    hear_handshake(bytes);
  }
  if (!opener_ || !on_done_) return;
  // The coordinator's first word is whether it takes this member. What follows is the member's.
  FrameOpener all = *opener_;
  const std::optional<OpenedMessage> first = opener_->next();
  if (!first) return;
  const Message message = decode(first->text);
  if (const auto* refusal = std::get_if<Refusal>(&message); refusal && first->numbers.number == 0) {
    return fail(refusal->text, !refusal->later);
  }
  const OnDone on_done = std::exchange(on_done_, nullptr);
  on_failure_ = nullptr;
  connection_->hand_over(nullptr, nullptr);
  on_done(std::move(connection_), std::move(all));
}

}  // namespace phalanx::rendezvous
