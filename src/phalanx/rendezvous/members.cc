#include "phalanx/rendezvous/members.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

constexpr auto kRollCallEvery = std::chrono::seconds(5);
// For a goodbye that a process said before it ended.
constexpr auto kLastWords = std::chrono::milliseconds(50);
// For a process that lives to come back when its connection was closed or reset.
constexpr auto kReturn = std::chrono::milliseconds(800);
// Where a launcher would have told of its end.
constexpr auto kWatchedReturn = std::chrono::seconds(5);
// Who is cut off is lost a little before the detector would say that it hangs.
constexpr auto kBeforeSilence = std::chrono::milliseconds(100);
// What is due within this time is looked at in time.
constexpr auto kSoon = std::chrono::milliseconds(200);
// A watcher that was not asked for so long did not run itself.
constexpr auto kOwnGap = std::chrono::seconds(1);
constexpr std::size_t kMostLines = 64;  // kept for who does not ask
// What Member says of its own exchanges.
constexpr std::string_view kOwnGroup = "rendezvous";

}  // namespace

Group::Group(GroupOptions options, Send send, Clock::time_point now)
    : options_(std::move(options)),
      send_(std::move(send)),
      roster_(options_.noun, options_.size),
      round_(options_.size),
      members_(static_cast<std::size_t>(options_.size)),
      begin_(now),
      called_(now) {}

void Group::tell(int number, const Message& message) const {
  send_(number, std::make_shared<const std::string>(encode(message)), false);
}

void Group::tell_all(const Message& message, bool may_be_dropped) const {
  const auto bytes = std::make_shared<const std::string>(encode(message));
  for (int number = 0; number < options_.size; ++number) {
    // Who is cut off hears it when it is back.
    const bool may_come_back = options_.over_network && !may_be_dropped && roster_.has(number);
    if (members_[static_cast<std::size_t>(number)].connected || may_come_back) {
      send_(number, bytes, may_be_dropped);
    }
  }
}

std::optional<Refusal> Group::join(int number, const JoinRequest& join, Clock::time_point now) {
  if (verdict_) {
    return Refusal{verdict_->code, false, "the others have failed: " + verdict_->reason};
  }
  if (std::optional<Refusal> refusal = roster_.admit(number, join)) return refusal;
  member(number).connected = true;
  member(number).session = join.session;
  if (roster_.complete()) {
    welcome(now);
  } else {
    tell(number, Ping{roster_.roll_call(), {}});
  }
  return std::nullopt;
}

void Group::welcome(Clock::time_point now) {
  const std::vector<RankPlace> places = roster_.places();
  for (Member& each : members_) each.heard = now;
  if (options_.noun == "rank") {
    detector_.emplace(places, options_.limits);
    for (int number = 0; number < options_.size; ++number) {
      detector_->joined(number, roster_.member(number).pid, now);
    }
  }
  tell_all(Welcome{options_.coordinator, options_.hosted_by, places});
}

void Group::heard(int number, Message&& message, Clock::time_point now) {
  if (std::holds_alternative<Goodbye>(message)) return hear_goodbye(number);
  // What it says before it knows that all have joined, or after it has left, it cannot mean.
  if (!roster_.complete() || member(number).left) throw UnavailableError("it speaks out of turn");
  if (verdict_) return;
  if (auto* part = std::get_if<RoundPart>(&message)) return hear(number, std::move(*part), now);
  if (auto* beat = std::get_if<Beat>(&message)) return hear(number, std::move(*beat), now);
  if (auto* failing = std::get_if<Failing>(&message)) {
    return take_failure(number, failing->reason, now);
  }
  throw UnavailableError("it says what members do not say");
}

void Group::hear(int number, RoundPart&& part, Clock::time_point now) {
  try {
    round_.add(number, std::move(part));
  } catch (const UnavailableError& error) {
    return take_failure(number, error.what(), now);
  }
  if (const std::optional<RoundResult> result = round_.finish()) tell_all(*result);
}

void Group::hear(int number, Beat&& beat, Clock::time_point now) {
  member(number).heard = now;
  // All ranks have the same flags.
  if (const auto said = beat.heartbeat.silence_limit; said && *said > 0) {
    silence_ = milliseconds_of(*said);
  }
  if (!detector_) return;
  if (std::optional<Heartbeat::Wait>& wait = beat.heartbeat.wait) {
    const auto nobody = [&](int rank) { return rank < 0 || rank >= options_.size; };
    if (std::any_of(wait->missing.begin(), wait->missing.end(), nobody)) {
      throw UnavailableError("it waits for ranks that there are not");
    }
    // Only here it is known who has not come.
    if (wait->at.group == kOwnGroup) wait->missing = round_.missing();
  }
  detector_->heard(number, beat.heartbeat, now);
}

void Group::hear_goodbye(int number) {
  Member& of_number = member(number);
  of_number.left = true;
  if (detector_) detector_->left(number);
  tell(number, GoodbyeHeard{});
}

bool Group::knows(int number, const JoinRequest& join) const {
  if (!options_.over_network || join.session.empty()) return false;
  return roster_.has(number) &&
         members_.at(static_cast<std::size_t>(number)).session == join.session;
}

void Group::resumed(int number, Clock::time_point now) {
  Member& of_number = member(number);
  of_number.connected = true;
  Ping ping;
  ping.silence = silence();
  if (!roster_.complete()) ping.waiting = roster_.roll_call();
  send_(number, std::make_shared<const std::string>(encode(ping)), true);
  const auto loss = std::find_if(losses_.begin(), losses_.end(),
                                 [&](const Loss& each) { return each.number == number; });
  if (loss == losses_.end() || !of_number.ended.empty()) return;
  if (lines_.size() < kMostLines) {
    lines_.push_back(fmt::format("{} is back: {}", roster_.name_of(number), loss->how));
  }
  losses_.erase(loss);
  of_number.lost = false;
  of_number.heard = now;
}

std::chrono::milliseconds Group::silence() const {
  return silence_.value_or(options_.over_network ? options_.limits.far_silence
                                                 : options_.limits.silence);
}

Group::Clock::time_point Group::due(int number, const ConnectionEnd& end,
                                    Clock::time_point now) const {
  const Clock::time_point soon = now + options_.hold;
  if (!options_.over_network || end.kind == ConnectionEnd::Kind::kFault) return soon;
  const Clock::time_point heard =
      roster_.complete() ? members_.at(static_cast<std::size_t>(number)).heard : now;
  Clock::time_point due = heard + silence() - kBeforeSilence;
  if (end.kind == ConnectionEnd::Kind::kClosed) {
    const bool is_watched = options_.hold.count() > 0;
    due = std::min(due, now + (is_watched ? Clock::duration(kWatchedReturn) : kReturn));
  }
  return std::max(soon, due);
}

// Nobody could come back meanwhile.
void Group::account_for_own_gap(Clock::time_point now) {
  const auto gap = now - judged_.value_or(now);
  judged_ = now;
  if (gap <= kOwnGap) return;
  for (Member& each : members_) each.heard = std::min(now, each.heard + gap);
  for (Loss& loss : losses_) loss.due += gap;
}

void Group::lost(int number, const ConnectionEnd& end, Clock::time_point now) {
  Member& of_number = member(number);
  of_number.connected = false;
  if (of_number.left) return;
  if (of_number.ended.empty()) {
    add_loss(number, end.how, due(number, end, now));
  } else {
    add_loss(number, of_number.ended, now);
  }
}

void Group::ended(int number, const std::string& how, Clock::time_point now) {
  if (number < 0 || number >= options_.size) return;
  Member& of_number = member(number);
  if (of_number.left) return;
  of_number.ended = how;
  add_loss(number, how, of_number.connected ? now + kLastWords : now);
}

void Group::node_lost(int node, const std::string& how, Clock::time_point now) {
  for (int number = 0; number < options_.size; ++number) {
    if (roster_.has(number) && roster_.member(number).node == node && !member(number).left) {
      add_loss(number, how, now + options_.hold);
    }
  }
}

void Group::add_loss(int number, const std::string& how, Clock::time_point due) {
  const auto known = std::find_if(losses_.begin(), losses_.end(),
                                  [&](const Loss& loss) { return loss.number == number; });
  if (known != losses_.end()) {
    known->due = std::min(known->due, due);
    if (!member(number).ended.empty()) known->how = member(number).ended;
    return;
  }
  if (std::exchange(member(number).lost, true)) return;
  losses_.push_back({number, how, due});
}

void Group::take_losses(Clock::time_point now, bool all) {
  std::vector<Loss> due;
  const auto waits = [&](const Loss& loss) { return !all && loss.due > now; };
  const auto end = std::stable_partition(losses_.begin(), losses_.end(), waits);
  due.assign(std::make_move_iterator(end), std::make_move_iterator(losses_.end()));
  losses_.erase(end, losses_.end());
  for (const Loss& loss : due) {
    if (member(loss.number).left) continue;
    lost_members_.emplace_back(loss.number, loss.how);
    if (detector_) {
      detector_->lost(loss.number, loss.how, now);
    } else {
      const std::string when = roster_.complete() ? "" : " before all had joined";
      decide({{loss.number},
              ErrorCode::kTemporary,
              fmt::format("{} is gone{}: {}", roster_.name_of(loss.number), when, loss.how),
              {}});
    }
  }
}

void Group::take_failure(int number, const std::string& reason, Clock::time_point now) {
  // Who was lost before it said so was first. Whether it was, one that may come back will show.
  Clock::time_point due = now;
  for (const Loss& loss : losses_) {
    if (options_.over_network && loss.due <= now + kReturn) due = std::max(due, loss.due);
  }
  if (due > now) {
    if (!failing_) failing_ = Loss{number, reason, due};
    return;
  }
  if (!options_.over_network) take_losses(now, true);
  if (detector_) {
    detector_->failed(number, reason, now);
  } else {
    decide({{number},
            ErrorCode::kTemporary,
            fmt::format("{}: {}", roster_.name_of(number), reason),
            {}});
  }
}

void Group::decide(Verdict verdict) {
  if (verdict_) return;
  verdict_ = std::move(verdict);
  const int culprit = verdict_->culprits.empty() ? -1 : verdict_->culprits.front();
  const RankFailure failure{culprit, verdict_->code, verdict_->reason};
  if (detector_ || roster_.complete()) {
    tell_all(Failed{failure, true});
  } else {
    tell_all(Refusal{failure.code, false, failure.reason});
  }
}

bool Group::is_urgent(Clock::time_point now) const {
  if (failing_ && !verdict_) return true;
  return !verdict_ && std::any_of(losses_.begin(), losses_.end(),
                                  [&](const Loss& loss) { return loss.due < now + kSoon; });
}

std::optional<Verdict> Group::judge(Clock::time_point now) {
  account_for_own_gap(now);
  if (!verdict_) {
    take_losses(now, false);
    if (failing_ && failing_->due <= now) {
      const Loss failing = *std::exchange(failing_, std::nullopt);
      take_failure(failing.number, failing.how, now);
    }
    if (detector_ && !verdict_) {
      if (std::optional<Verdict> verdict = detector_->judge(now)) decide(std::move(*verdict));
    }
    if (!verdict_ && !roster_.complete() && now - begin_ >= options_.join_timeout) {
      decide({roster_.missing(),
              ErrorCode::kUnavailable,
              fmt::format("not all {}s have come within {:.3g} s: {}", options_.noun,
                          std::chrono::duration<double>(options_.join_timeout).count(),
                          roster_.roll_call()),
              {}});
    }
  }
  if (!verdict_ || std::exchange(verdict_told_, true)) return std::nullopt;
  return verdict_;
}

void Group::ping(Clock::time_point now) {
  Ping ping;
  ping.silence = silence();
  if (!roster_.complete()) {
    ping.waiting = roster_.roll_call();
  } else if (detector_) {
    ping.busy = detector_->busy_ranks(now);
  }
  tell_all(ping, true);
}

std::optional<std::string> Group::roll_call(Clock::time_point now) {
  if (roster_.complete() || verdict_ || now - called_ < kRollCallEvery) return std::nullopt;
  called_ = now;
  return roster_.roll_call();
}

std::vector<std::string> Group::warnings() {
  std::vector<std::string> lines = std::exchange(lines_, {});
  if (!detector_ || verdict_) return lines;
  for (std::string& line : detector_->slow_ranks()) lines.push_back(std::move(line));
  for (std::string& line : detector_->warnings()) lines.push_back(std::move(line));
  return lines;
}

void Group::abandon(const std::string& why) {
  if (!roster_.complete()) decide({{options_.hosted_by}, ErrorCode::kTemporary, why, {}});
}

bool Group::over() const {
  if (verdict_) return true;
  // Who is cut off may come back.
  const auto is_here = [](const Member& m) { return m.connected && !m.left; };
  return losses_.empty() && std::none_of(members_.begin(), members_.end(), is_here);
}

}  // namespace phalanx::rendezvous
