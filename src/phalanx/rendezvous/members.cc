#include "phalanx/rendezvous/members.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kMostLines = 64;  // kept until somebody asks
// The group that Member reports for its own exchanges of texts.
constexpr std::string_view kOwnGroup = "rendezvous";

}  // namespace

Members::Members(MembersOptions options, Send send, Clock::time_point now)
    : options_(std::move(options)),
      send_(std::move(send)),
      roster_(options_.noun, options_.size),
      round_(options_.size),
      records_(static_cast<std::size_t>(options_.size)),
      begin_(now),
      roll_called_(now) {}

void Members::send_to(int number, const ControlMessage& message) const {
  send_(number, std::make_shared<const std::string>(encode(message)), false);
}

void Members::send_to_all(const ControlMessage& message, bool may_be_dropped) const {
  const auto bytes = std::make_shared<const std::string>(encode(message));
  visited_ += records_.size();
  for (int number = 0; number < options_.size; ++number) {
    // A member that is cut off gets it when it reconnects.
    const bool may_come_back = options_.over_network && !may_be_dropped && roster_.has(number);
    if (records_[static_cast<std::size_t>(number)].connected || may_come_back) {
      send_(number, bytes, may_be_dropped);
    }
  }
}

std::optional<Refusal> Members::join(int number, const JoinRequest& join, Clock::time_point now) {
  if (verdict_) {
    return Refusal{verdict_->code, false, "the others have failed: " + verdict_->reason};
  }
  if (std::optional<Refusal> refusal = roster_.admit(number, join)) return refusal;
  record(number).connected = true;
  record(number).session = join.session;
  if (roster_.complete()) {
    welcome_all(now);
  } else {
    // Who is missing comes with the next ping.
    send_to(number, Ping{roster_.count_text(), {}});
  }
  return std::nullopt;
}

void Members::welcome_all(Clock::time_point now) {
  const std::vector<RankPlace> places = roster_.places();
  visited_ += records_.size();
  for (Record& each : records_) each.last_heard = now;
  if (options_.noun == "rank") {
    detector_.emplace(places, options_.limits);
    for (int number = 0; number < options_.size; ++number) {
      detector_->on_joined(number, roster_.member(number).pid, now);
    }
  }
  send_to_all(Welcome{options_.coordinator, options_.coordinator_rank, PlaceList(places)});
}

void Members::on_message(int number, ControlMessage&& message, Clock::time_point now) {
  if (std::holds_alternative<Goodbye>(message)) return on_goodbye(number);
  // A member sends nothing else before it knows that all have joined, or after it has left.
  if (!roster_.complete() || record(number).left) throw UnavailableError("it speaks out of turn");
  if (verdict_) return;
  if (auto* part = std::get_if<RoundPart>(&message))
    return on_round_part(number, std::move(*part), now);
  if (auto* heartbeat = std::get_if<Heartbeat>(&message))
    return on_heartbeat(number, std::move(*heartbeat), now);
  if (auto* mail = std::get_if<MailPart>(&message)) {
    return send_mail(mail_.on_part(number, std::move(*mail)));
  }
  if (const auto* request = std::get_if<MailRequest>(&message)) {
    return send_mail(mail_.on_request(number, *request));
  }
  if (auto* failing = std::get_if<Failing>(&message)) {
    return process_failure(number, failing->reason, now);
  }
  throw UnavailableError("it says what members do not say");
}

void Members::on_round_part(int number, RoundPart&& part, Clock::time_point now) {
  try {
    round_.add(number, std::move(part));
  } catch (const UnavailableError& error) {
    return process_failure(number, error.what(), now);
  }
  if (const std::optional<RoundResult> result = round_.finish()) send_to_all(*result);
}

void Members::on_heartbeat(int number, Heartbeat&& heartbeat, Clock::time_point now) {
  record(number).last_heard = now;
  // All ranks have the same flags.
  if (const auto limit = heartbeat.silence_limit; limit && *limit > 0) {
    silence_limit_ = milliseconds_of(*limit);
  }
  if (!detector_) return;
  if (std::optional<Heartbeat::Wait>& wait = heartbeat.wait) {
    const auto is_no_rank = [&](int rank) { return rank < 0 || rank >= options_.size; };
    if (std::any_of(wait->missing.begin(), wait->missing.end(), is_no_rank)) {
      throw UnavailableError("it waits for ranks that there are not");
    }
    // The member does not know which ranks' texts are missing.
    if (wait->place.group == kOwnGroup) {
      wait->missing = round_.missing(Heartbeat::kMostMissing);
      wait->missing_count = round_.missing_count();
    }
  }
  detector_->on_heartbeat(number, std::move(heartbeat), now);
}

void Members::send_mail(const std::vector<MailStore::Answer>& answers) const {
  for (const MailStore::Answer& answer : answers) {
    if (!has_left(answer.number)) send_(answer.number, answer.bytes, false);
  }
}

void Members::on_goodbye(int number) {
  Record& member = record(number);
  member.left = true;
  if (detector_) detector_->on_left(number);
  send_to(number, GoodbyeConfirmed{});
}

bool Members::is_returning(int number, const JoinRequest& join) const {
  if (!options_.over_network || join.session.empty()) return false;
  return roster_.has(number) &&
         records_.at(static_cast<std::size_t>(number)).session == join.session;
}

void Members::on_returned(int number, Clock::time_point now) {
  Record& member = record(number);
  member.connected = true;
  Ping ping;
  ping.silence = silence_limit();
  if (!roster_.complete()) ping.waiting = roster_.count_text();
  send_(number, std::make_shared<const std::string>(encode(ping)), true);
  const auto loss = losses_.find(number);
  if (loss == losses_.end() || !member.process_end.empty()) return;
  if (log_lines_.size() < kMostLines) {
    log_lines_.push_back(fmt::format("{} is back: {}", roster_.name_of(number), loss->second.how));
  }
  losses_.erase(loss);
  member.lost = false;
  member.last_heard = now;
}

std::chrono::milliseconds Members::silence_limit() const {
  return silence_limit_.value_or(options_.over_network ? options_.limits.far_silence
                                                       : options_.limits.silence);
}

Members::Clock::time_point Members::loss_time(int number, const ConnectionEnd& end,
                                              Clock::time_point now) const {
  const Clock::time_point earliest = now + options_.exit_report_wait;
  if (!options_.over_network || end.kind == ConnectionEnd::Kind::kFault) return earliest;
  const Clock::time_point last_heard =
      roster_.complete() ? records_.at(static_cast<std::size_t>(number)).last_heard : now;
  Clock::time_point due = last_heard + silence_limit() - kBeforeSilenceLimit;
  if (end.kind == ConnectionEnd::Kind::kClosed) {
    const bool is_watched = options_.exit_report_wait.count() > 0;
    due =
        std::min(due, now + (is_watched ? Clock::duration(kWatchedReconnectWait) : kReconnectWait));
  }
  return std::max(earliest, due);
}

// No member could reconnect while this process did not run.
void Members::account_for_own_gap(Clock::time_point now) {
  const auto gap = now - last_judge_.value_or(now);
  last_judge_ = now;
  if (gap <= kOwnGap) return;
  visited_ += records_.size();
  for (Record& each : records_) each.last_heard = std::min(now, each.last_heard + gap);
  for (auto& [number, loss] : losses_) loss.due += gap;
}

void Members::on_connection_end(int number, const ConnectionEnd& end, Clock::time_point now) {
  Record& member = record(number);
  member.connected = false;
  if (member.left) return;
  if (member.process_end.empty()) {
    add_loss(number, end.how, loss_time(number, end, now));
  } else {
    add_loss(number, member.process_end, now);
  }
}

void Members::on_process_end(int number, const std::string& how, Clock::time_point now) {
  if (number < 0 || number >= options_.size) return;
  Record& member = record(number);
  if (member.left) return;
  member.process_end = how;
  add_loss(number, how, member.connected ? now + kGoodbyeWait : now);
}

void Members::on_node_lost(int node, const std::string& how, Clock::time_point now) {
  visited_ += records_.size();
  for (int number = 0; number < options_.size; ++number) {
    if (roster_.has(number) && roster_.member(number).node == node && !record(number).left) {
      add_loss(number, how, now + options_.exit_report_wait);
    }
  }
}

void Members::add_loss(int number, const std::string& how, Clock::time_point due) {
  next_due_ = std::min(next_due_, due);
  if (const auto known = losses_.find(number); known != losses_.end()) {
    known->second.due = std::min(known->second.due, due);
    if (!record(number).process_end.empty()) known->second.how = record(number).process_end;
    return;
  }
  if (std::exchange(record(number).lost, true)) return;
  losses_.emplace(number, Loss{how, due, ++loss_count_});
}

void Members::process_losses(Clock::time_point now, bool all) {
  if (!all && next_due_ > now) return;
  std::vector<std::pair<int, Loss>> due;
  next_due_ = Clock::time_point::max();
  visited_ += losses_.size();
  for (auto entry = losses_.begin(); entry != losses_.end();) {
    if (all || entry->second.due <= now) {
      due.emplace_back(entry->first, std::move(entry->second));
      entry = losses_.erase(entry);
    } else {
      next_due_ = std::min(next_due_, entry->second.due);
      ++entry;
    }
  }
  std::sort(due.begin(), due.end(), [](const auto& left, const auto& right) {
    return left.second.order < right.second.order;
  });
  for (const auto& [number, loss] : due) {
    if (record(number).left) continue;
    lost_members_.emplace_back(number, loss.how);
    if (detector_) {
      detector_->on_lost(number, loss.how, now);
    } else {
      const std::string when = roster_.complete() ? "" : " before all had joined";
      set_verdict({{number},
                   ErrorCode::kTemporary,
                   fmt::format("{} is gone{}: {}", roster_.name_of(number), when, loss.how),
                   {}});
    }
  }
}

void Members::process_failure(int number, const std::string& reason, Clock::time_point now) {
  // A member that was lost before this report failed first. One that may still reconnect is waited
  // for.
  Clock::time_point due = now;
  visited_ += losses_.size();
  for (const auto& [other, loss] : losses_) {
    if (options_.over_network && loss.due <= now + kReconnectWait) due = std::max(due, loss.due);
  }
  if (due > now) {
    if (!delayed_failure_) delayed_failure_ = Failure{number, reason, due};
    return;
  }
  if (!options_.over_network) process_losses(now, true);
  if (detector_) {
    detector_->on_failed(number, reason, now);
    failure_reported_ = true;
  } else {
    set_verdict({{number},
                 ErrorCode::kTemporary,
                 fmt::format("{}: {}", roster_.name_of(number), reason),
                 {}});
  }
}

void Members::set_verdict(Verdict verdict) {
  if (verdict_) return;
  verdict_ = std::move(verdict);
  const int culprit = verdict_->culprits.empty() ? -1 : verdict_->culprits.front();
  const RankFailure failure{culprit, verdict_->code, verdict_->reason};
  if (detector_ || roster_.complete()) {
    send_to_all(Failed{failure, true});
  } else {
    send_to_all(Refusal{failure.code, false, failure.reason});
  }
}

bool Members::is_urgent(Clock::time_point now) const {
  return !verdict_ && (delayed_failure_ || next_due_ < now + kUrgentBefore);
}

bool Members::has_event(Clock::time_point now) const {
  if (verdict_) return !verdict_returned_;
  return failure_reported_ || next_due_ <= now ||
         (delayed_failure_ && delayed_failure_->due <= now);
}

std::optional<Verdict> Members::judge(Clock::time_point now) {
  account_for_own_gap(now);
  if (!verdict_) {
    process_losses(now, false);
    if (delayed_failure_ && delayed_failure_->due <= now) {
      const Failure failing = *std::exchange(delayed_failure_, std::nullopt);
      process_failure(failing.number, failing.reason, now);
    }
    failure_reported_ = false;
    if (detector_ && !verdict_) {
      if (std::optional<Verdict> verdict = detector_->judge(now)) set_verdict(std::move(*verdict));
    }
    if (!verdict_ && !roster_.complete() && now - begin_ >= options_.join_timeout) {
      set_verdict({roster_.missing(),
                   ErrorCode::kUnavailable,
                   fmt::format("not all {}s have come within {:.3g} s: {}", options_.noun,
                               std::chrono::duration<double>(options_.join_timeout).count(),
                               roster_.roll_call()),
                   {}});
    }
  }
  if (!verdict_ || std::exchange(verdict_returned_, true)) return std::nullopt;
  return verdict_;
}

void Members::ping(Clock::time_point now) {
  Ping ping;
  ping.silence = silence_limit();
  if (!roster_.complete()) {
    ping.waiting = roster_.roll_call();
  } else if (detector_) {
    ping.busy = detector_->busy_ranks(now);
  }
  send_to_all(ping, true);
}

std::optional<std::string> Members::roll_call(Clock::time_point now) {
  if (roster_.complete() || verdict_ || now - roll_called_ < kRollCallPeriod) return std::nullopt;
  roll_called_ = now;
  return roster_.roll_call();
}

std::vector<std::string> Members::warnings() {
  std::vector<std::string> lines = std::exchange(log_lines_, {});
  if (!detector_ || verdict_) return lines;
  for (std::string& line : detector_->slow_ranks()) lines.push_back(std::move(line));
  for (std::string& line : detector_->warnings()) lines.push_back(std::move(line));
  return lines;
}

void Members::abandon(const std::string& why) {
  if (!roster_.complete())
    set_verdict({{options_.coordinator_rank}, ErrorCode::kTemporary, why, {}});
}

bool Members::is_over() const {
  if (verdict_) return true;
  visited_ += records_.size();
  // A member that is cut off may reconnect.
  const auto is_here = [](const Record& m) { return m.connected && !m.left; };
  return losses_.empty() && std::none_of(records_.begin(), records_.end(), is_here);
}

}  // namespace phalanx::rendezvous
