#include "phalanx/rendezvous/member_link.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {

MemberLink::MemberLink(Dialer& dialer, const MemberOptions& options, Joined&& joined,
                       Callbacks callbacks)
    : dialer_(dialer),
      role_(options.role),
      environment_(options.environment),
      callbacks_(std::move(callbacks)),
      secret_(std::move(joined.secret)),
      session_name_(std::move(joined.session_name)),
      session_(std::move(joined.session)),
      opener_(std::move(joined.opener)),
      pause_(kShortestPause),
      silence_limit_(kFarSilenceLimit),
      last_heard_(callbacks_.now()) {
  listen_to(std::move(joined.link));
}

void MemberLink::listen_to(std::shared_ptr<Link> link) {
  link_ = std::move(link);
  link_->hand_over([this](std::string_view bytes) { on_bytes(bytes); },
                   [this](const ConnectionEnd& end) { on_connection_end(end); });
}

void MemberLink::begin() {
  last_heard_ = callbacks_.now();
  if (!link_->is_open()) {
    return on_connection_end({ConnectionEnd::Kind::kClosed, "its connection was closed"});
  }
  try {
    on_bytes({});
  } catch (const std::exception& error) {
    link_->close();
    give_up(std::string("its connection was ended: ") + error.what());
  }
}

void MemberLink::send(const ControlMessage& message) {
  const auto bytes = std::make_shared<const std::string>(encode(message));
  // A lost heartbeat is not sent again: the next one follows.
  const std::uint64_t number =
      std::holds_alternative<Heartbeat>(message) ? 0 : session_.add_sent(bytes);
  if (!awaits_confirmation_) link_->send(bytes, number);
}

void MemberLink::on_bytes(std::string_view bytes) {
  last_heard_ = callbacks_.now();
  stop_reconnecting();
  opener_.feed(bytes);
  while (const std::optional<OpenedMessage> message = opener_.next()) {
    session_.confirm(message->numbers.last_received);
    if (std::exchange(awaits_confirmation_, false)) {
      for (const Session::SentMessage& sent : session_.unconfirmed()) {
        link_->send(sent.bytes, sent.number);
      }
    }
    // A message that was sent again may have come before.
    if (message->numbers.number != 0 && !session_.accept(message->numbers.number)) continue;
    link_->set_last_received(session_.last_received());
    callbacks_.on_message(decode(message->text));
  }
}

void MemberLink::set_silence_limit(std::chrono::milliseconds limit) {
  silence_limit_ = limit;
  link_->set_silence_limit(limit);
}

void MemberLink::on_connection_end(const ConnectionEnd& end) {
  const bool may_come_back =
      link_->is_over_network() && session_.is_whole() && end.kind != ConnectionEnd::Kind::kFault;
  if (!may_come_back) return give_up(end.how);
  connection_end_ = end.how;
  callbacks_.on_cut_off(true);
  // The coordinator does not wait long for a member whose connection was closed: try at once.
  pause_ = kShortestPause;
  next_attempt_ = {};
  reconnect(callbacks_.now());
}

void MemberLink::give_up(const std::string& how) {
  stop_reconnecting();
  if (!std::exchange(is_lost_, true)) callbacks_.on_lost(how);
}

void MemberLink::reconnect(Clock::time_point now) {
  if (reconnection_ && now - attempt_began_ >= kReconnectTimeout) stop_reconnecting();
  if (reconnection_ || now < next_attempt_) return;
  attempt_began_ = now;
  next_attempt_ = now + pause_;
  pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
  reconnection_ = std::make_shared<Reconnection>(
      dialer_,
      Reconnection::Setup{
          secret_, Hello{role_, environment_.rank, environment_.attempt, environment_.run_id},
          join_request(environment_, session_name_, session_.last_received())});
  reconnection_->start(
      [this](std::shared_ptr<Link> link, FrameOpener opener) {
        on_reconnected(std::move(link), std::move(opener));
      },
      [this](const std::string& how, bool is_final) {
        reconnection_.reset();
        if (!is_final) return;
        link_->close();
        give_up(connection_end_.empty() ? how : connection_end_ + ", and " + how);
      });
}

void MemberLink::stop_reconnecting() {
  if (reconnection_) std::exchange(reconnection_, nullptr)->stop();
}

void MemberLink::on_reconnected(std::shared_ptr<Link> link, FrameOpener opener) {
  reconnection_.reset();
  link_->close();
  listen_to(std::move(link));
  link_->set_silence_limit(silence_limit_);
  opener_ = std::move(opener);
  connection_end_.clear();
  pause_ = kShortestPause;
  awaits_confirmation_ = true;
  on_bytes({});
  callbacks_.on_cut_off(false);
}

void MemberLink::check(Clock::time_point now) {
  if (is_lost_) return;
  const auto time = now - last_heard_;
  if (!link_->is_open()) {
    if (connection_end_.empty()) return;
    return time > silence_limit_ ? give_up(connection_end_) : reconnect(now);
  }
  if (time > silence_limit_) {
    // A coordinator that was stopped (Ctrl-Z, a debugger) is silent, but does not hang.
    if (link_->peer_is_stopped()) {
      last_heard_ = now;
      return;
    }
    stop_reconnecting();
    return callbacks_.on_silence(time);
  }
  const bool is_doubtful = link_->is_over_network() && session_.is_whole() &&
                           time > silence_limit_ / kSilencePartUntilDoubt;
  return is_doubtful ? reconnect(now) : stop_reconnecting();
}

void MemberLink::close() {
  stop_reconnecting();
  link_->close();
}

}  // namespace phalanx::rendezvous
