#include "phalanx/rendezvous/member_link.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/detector.h"

namespace phalanx::rendezvous {
namespace {

// Between tries to come back, and for one of them.
constexpr auto kShortestPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::seconds(1);
constexpr auto kLongestComeback = std::chrono::seconds(5);
// After so much silence, of that which would be the end, a connection is tried beside the one that
// there is: the network may have forgotten it, and let another through.
constexpr int kSilenceToDoubt = 4;

}  // namespace

MemberLink::MemberLink(asio::io_context& context, const MemberOptions& options, Joined&& joined,
                       Calls calls)
    : context_(context),
      role_(options.role),
      environment_(options.environment),
      calls_(std::move(calls)),
      address_(joined.address),
      secret_(std::move(joined.secret)),
      session_name_(std::move(joined.session_name)),
      session_(std::move(joined.session)),
      opener_(std::move(joined.opener)),
      pause_(kShortestPause),
      silence_(Detector::Limits{}.far_silence) {
  listen_to(std::move(joined.connection));
}

void MemberLink::listen_to(std::shared_ptr<Connection> connection) {
  connection_ = std::move(connection);
  connection_->hand_over([this](std::string_view bytes) { hear(bytes); },
                         [this](const ConnectionEnd& end) { ended(end); });
}

void MemberLink::begin() {
  heard_ = Clock::now();
  if (!connection_->is_open()) {
    return ended({ConnectionEnd::Kind::kClosed, "its connection was closed"});
  }
  try {
    hear({});
  } catch (const std::exception& error) {
    connection_->close();
    lose(std::string("its connection was ended: ") + error.what());
  }
}

void MemberLink::send(const Message& message) {
  const auto bytes = std::make_shared<const std::string>(encode(message));
  // A heartbeat that is lost is followed by the next one.
  const std::uint64_t number = std::holds_alternative<Beat>(message) ? 0 : session_.say(bytes);
  if (!resuming_) connection_->send(bytes, number);
}

void MemberLink::hear(std::string_view bytes) {
  heard_ = Clock::now();
  stop_coming_back();
  opener_.feed(bytes);
  while (const std::optional<OpenedMessage> message = opener_.next()) {
    session_.confirm(message->numbers.heard);
    if (std::exchange(resuming_, false)) {
      for (const Session::Said& said : session_.unconfirmed()) {
        connection_->send(said.bytes, said.number);
      }
    }
    // Said again, and heard before.
    if (message->numbers.number != 0 && !session_.hear(message->numbers.number)) continue;
    connection_->set_heard(session_.heard());
    calls_.hear(decode(message->text));
  }
}

void MemberLink::set_silence(std::chrono::milliseconds silence) {
  silence_ = silence;
  connection_->set_silence(silence);
}

void MemberLink::ended(const ConnectionEnd& end) {
  const bool may_come_back = connection_->is_over_network() && session_.is_whole() &&
                             end.kind != ConnectionEnd::Kind::kFault;
  if (!may_come_back) return lose(end.how);
  lost_how_ = end.how;
  calls_.cut_off(true);
  // The coordinator does not wait long for who has closed its connection itself.
  pause_ = kShortestPause;
  next_comeback_ = {};
  come_back(Clock::now());
}

void MemberLink::lose(const std::string& how) {
  stop_coming_back();
  if (!std::exchange(is_lost_, true)) calls_.lose(how);
}

void MemberLink::come_back(Clock::time_point now) {
  if (comeback_ && now - comeback_began_ >= kLongestComeback) stop_coming_back();
  if (comeback_ || now < next_comeback_) return;
  comeback_began_ = now;
  next_comeback_ = now + pause_;
  pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
  comeback_ = std::make_shared<Comeback>(
      context_,
      Comeback::Setup{address_, secret_,
                      Hello{role_, environment_.rank, environment_.attempt, environment_.run_id},
                      join_request(environment_, session_name_, session_.heard())});
  comeback_->start([this](std::shared_ptr<Connection> connection,
                          FrameOpener opener) { resume(std::move(connection), std::move(opener)); },
                   [this](const std::string& how, bool is_final) {
                     comeback_.reset();
                     if (!is_final) return;
                     connection_->close();
                     lose(lost_how_.empty() ? how : lost_how_ + ", and " + how);
                   });
}

void MemberLink::stop_coming_back() {
  if (comeback_) std::exchange(comeback_, nullptr)->stop();
}

void MemberLink::resume(std::shared_ptr<Connection> connection, FrameOpener opener) {
  comeback_.reset();
  connection_->close();
  listen_to(std::move(connection));
  connection_->set_silence(silence_);
  opener_ = std::move(opener);
  lost_how_.clear();
  pause_ = kShortestPause;
  resuming_ = true;
  hear({});
  calls_.cut_off(false);
}

void MemberLink::check(Clock::time_point now) {
  if (is_lost_) return;
  const auto time = now - heard_;
  if (!connection_->is_open()) {
    if (lost_how_.empty()) return;
    return time > silence_ ? lose(lost_how_) : come_back(now);
  }
  if (time > silence_) {
    // A coordinator that somebody stopped says nothing for as long.
    if (connection_->peer_is_stopped()) {
      heard_ = now;
      return;
    }
    stop_coming_back();
    return calls_.hang(time);
  }
  const bool is_doubtful =
      connection_->is_over_network() && session_.is_whole() && time > silence_ / kSilenceToDoubt;
  return is_doubtful ? come_back(now) : stop_coming_back();
}

void MemberLink::close() {
  stop_coming_back();
  connection_->close();
}

}  // namespace phalanx::rendezvous
