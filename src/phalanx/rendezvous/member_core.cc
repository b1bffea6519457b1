#include "phalanx/rendezvous/member_core.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {

MemberCore::MemberCore(Host& host, Dialer& dialer, const MemberOptions& options, Joined&& joined)
    : host_(host),
      has_silence_limit_(options.silence_limit.has_value()),
      places_(std::move(joined.welcome.places)),
      coordinator_(std::move(joined.welcome.coordinator)),
      coordinator_rank_(joined.welcome.coordinator_rank),
      round_reader_(places_.ranks()),
      link_(dialer, options, std::move(joined),
            {.now = [this] { return host_.now(); },
             .on_message = [this](ControlMessage&& message) { on_message(std::move(message)); },
             .on_lost = [this](const std::string& how) { on_coordinator_lost(how); },
             .on_silence = [this](Clock::duration time) { on_coordinator_silent(time); },
             .on_cut_off =
                 [this](bool is_cut_off) {
                   host_.on_cut_off(is_cut_off);
                   if (!is_cut_off) send_heartbeat();
                 }}),
      last_tick_(host.now()) {
  const int own = options.environment.rank;
  const bool is_near = own < places_.ranks() && places_.host_of(own) == 0;
  // A coordinator that is connected and silent for so long hangs.
  const std::chrono::milliseconds usual = is_near ? kSilenceLimit : kFarSilenceLimit;
  link_.set_silence_limit(options.silence_limit ? milliseconds_of(*options.silence_limit) : usual);
}

void MemberCore::begin() {
  last_tick_ = host_.now();
  send_heartbeat();
  link_.begin();
}

void MemberCore::tick() {
  const Clock::time_point now = host_.now();
  // A process that was stopped could receive nothing.
  if (now - last_tick_ > kOwnGap + kTickPeriod) link_.account_for_own_gap(now - last_tick_);
  last_tick_ = now;
  if (now - last_heartbeat_ >= kHeartbeatPeriod) send_heartbeat();
  link_.check(now);
}

void MemberCore::send_heartbeat() {
  if (goodbye_sent_) return;
  last_heartbeat_ = host_.now();
  link_.send(host_.heartbeat(last_heartbeat_));
}

void MemberCore::say_goodbye() {
  link_.send(Goodbye{});
  goodbye_sent_ = true;
}

void MemberCore::on_message(ControlMessage&& message) {
  if (auto* failed = std::get_if<Failed>(&message)) {
    if (failed->of_own_group) return host_.on_failure(std::move(failed->failure));
    return host_.on_rank_failure(failed->failure);
  }
  if (auto* ping = std::get_if<Ping>(&message)) return on_ping(std::move(*ping));
  if (auto* mail = std::get_if<Mail>(&message)) return host_.on_mail(std::move(*mail));
  if (auto* result = std::get_if<RoundResult>(&message)) {
    const std::int64_t round = result->round;
    return host_.on_texts(round, round_reader_.texts_of(std::move(*result)));
  }
  if (std::holds_alternative<GoodbyeConfirmed>(message)) return host_.on_goodbye_confirmed();
  throw UnavailableError("it speaks out of turn");
}

void MemberCore::on_ping(Ping&& ping) {
  if (ping.silence.count() > 0 && !has_silence_limit_) link_.set_silence_limit(ping.silence);
  host_.on_busy_ranks(std::move(ping.busy));
}

void MemberCore::on_coordinator_silent(Clock::duration time) {
  host_.on_failure({coordinator_rank_, ErrorCode::kHang,
                    fmt::format("{}, where all meet, hangs: it has said nothing for {:.1f} s",
                                coordinator_, std::chrono::duration<double>(time).count())});
}

void MemberCore::on_coordinator_lost(const std::string& how) {
  host_.on_failure({coordinator_rank_, ErrorCode::kTemporary,
                    fmt::format("{}, where all meet, is gone: {}", coordinator_, how)});
  host_.on_coordinator_gone();
}

}  // namespace phalanx::rendezvous
