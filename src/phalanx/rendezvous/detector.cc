#include "phalanx/rendezvous/detector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "phalanx/rendezvous/observed_rank.h"
#include "phalanx/rendezvous/slow_ranks.h"
#include "phalanx/rendezvous/timing.h"
#include "phalanx/rendezvous/verdict_text.h"
#include "phalanx/rendezvous/wait_graph.h"

namespace phalanx {

using rendezvous::ObservedRank;
using rendezvous::seconds;
using TimePoint = Detector::Clock::time_point;
using Life = ObservedRank::Life;

namespace {

constexpr double kMaxSeconds = 1e9;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 50;
constexpr std::size_t kMaxWarnings = 64;  // kept until somebody asks
constexpr std::size_t kMaxBusyNamed = 3;
constexpr std::size_t kMaxReason = 1000;

double sane_seconds(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.0, kMaxSeconds) : 0.0;
}

// Of ranks that stopped at the same time one passes the limit first, since heartbeats come at
// different times. The others have then passed this lower limit.
Detector::Clock::duration limit_of_further_culprits(Detector::Clock::duration limit) {
  return std::max<Detector::Clock::duration>(limit - std::chrono::seconds(1), limit / 2);
}

Detector::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Detector::Clock::duration>(
      std::chrono::duration<double>(seconds));
}

std::optional<double> sane_limit(const std::optional<double>& limit) {
  if (!limit || !std::isfinite(*limit) || *limit < 0) return std::nullopt;
  return std::min(*limit, kMaxSeconds);
}

// Whether a wait began or ended, or another one began. It counts as progress, since the tick that
// follows a wait comes a little later.
bool has_other_wait(const Heartbeat& before, const Heartbeat& now) {
  if (before.wait.has_value() != now.wait.has_value()) return true;
  if (!now.wait) return false;
  const CommPlace& was = before.wait->place;
  const CommPlace& is = now.wait->place;
  return was.group != is.group || was.operation != is.operation || was.number != is.number;
}

}  // namespace

class Detector::State {
 public:
  State(std::vector<RankPlace> places, const Limits& limits);

  void account_for_own_gap(TimePoint now);
  void on_joined(int rank, int pid, TimePoint now);
  void on_heartbeat(int rank, Heartbeat&& heartbeat, TimePoint now);
  void on_lost(int rank, const std::string& how);
  void on_failed(int rank, const std::string& reason);
  void on_left(int rank);
  std::optional<Verdict> judge(TimePoint now);
  std::vector<std::string> slow_ranks() { return std::exchange(slow_lines_, {}); }
  std::vector<std::string> warnings() { return std::exchange(warnings_, {}); }
  std::string busy_ranks(TimePoint now) const;
  std::uint64_t visited() const { return visited_; }

 private:
  // The first rank that was lost or failed.
  struct FirstFailure {
    int rank = 0;
    bool is_reported = false;  // by the rank itself
    std::string text;
  };

  ObservedRank& state_of(int rank);
  bool all_joined() const { return absent_ == 0; }
  bool is_stale(const ObservedRank& state, TimePoint now) const;
  bool are_whole_host(const std::vector<int>& ranks) const;
  bool same_host(int first, int second) const;
  void warn_of_past_silence(ObservedRank& state, TimePoint now);
  Clock::duration silence_limit(const ObservedRank& state) const;
  std::optional<Clock::duration> still_limit() const;
  Verdict verdict(std::vector<int> culprits, ErrorCode code, std::string reason, TimePoint now);
  Verdict failure_verdict(TimePoint now);
  std::optional<Verdict> silence_verdict(TimePoint now);
  std::optional<Verdict> stillness_verdict(TimePoint now);
  std::vector<rendezvous::GraphRank> graph(TimePoint now, Clock::duration limit) const;

  Limits limits_;
  // All ranks, to look at each.
  const rendezvous::States& all() const {
    visited_ += states_.size();
    return states_;
  }

  mutable std::uint64_t visited_ = 0;
  rendezvous::States states_;
  rendezvous::SlowRanks slow_;
  std::vector<std::string> slow_lines_;
  std::vector<std::string> warnings_;
  bool several_hosts_ = false;
  int absent_ = 0;
  bool somebody_left_ = false;
  Clock::duration reported_silence_limit_{};  // the ranks' own; zero: none was reported
  bool judged_ = false;
  std::optional<TimePoint> last_judge_;
  std::optional<TimePoint> last_excused_;  // the last look at ranks without progress
  std::optional<FirstFailure> failure_;
};

Detector::State::State(std::vector<RankPlace> places, const Limits& limits)
    : limits_(limits),
      states_(places.size()),
      slow_(static_cast<int>(places.size()), limits.slow_factor, limits.window_steps),
      absent_(static_cast<int>(places.size())) {
  PHALANX_CHECK(!places.empty() && limits.window_steps > 0, "{} places, windows of {} steps",
                places.size(), limits.window_steps);
  for (std::size_t i = 0; i < places.size(); ++i) {
    PHALANX_CHECK(places[i].rank == static_cast<int>(i), "place {} is rank {}'s", i,
                  places[i].rank);
    several_hosts_ = several_hosts_ || places[i].host != places[0].host;
    states_[i].place = std::move(places[i]);
  }
}

ObservedRank& Detector::State::state_of(int rank) {
  PHALANX_CHECK(rank >= 0 && rank < static_cast<int>(states_.size()), "rank {} of {}", rank,
                states_.size());
  return states_[rank];
}

// ---------------------------------------------------------------------------------------------
// Events.

// Moves all times past the gap. To be called before any other event of after the gap is recorded.
void Detector::State::account_for_own_gap(TimePoint now) {
  if (!last_judge_ || now - *last_judge_ <= rendezvous::kOwnGap) return;
  const Clock::duration gap = now - *last_judge_;
  visited_ += states_.size();
  for (ObservedRank& state : states_) {
    state.last_heard = std::min(now, state.last_heard + gap);
    state.last_moved = std::min(now, state.last_moved + gap);
    state.busy_since = std::min(now, state.busy_since + gap);
  }
  last_judge_ = now;
}

void Detector::State::on_joined(int rank, int pid, TimePoint now) {
  ObservedRank& state = state_of(rank);
  PHALANX_CHECK(state.life == Life::kAbsent, "rank {} joins twice", rank);
  state.life = Life::kHere;
  state.pid = pid;
  state.last_heard = state.last_moved = now;
  --absent_;
  if (!all_joined()) return;
  // Ranks have nothing to do while others are missing: their times begin now.
  visited_ += states_.size();
  for (ObservedRank& other : states_) other.last_heard = other.last_moved = now;
}

void Detector::State::warn_of_past_silence(ObservedRank& state, TimePoint now) {
  const auto silence = now - state.last_heard;
  if (!all_joined() || silence < silence_limit(state) / 2 || warnings_.size() >= kMaxWarnings)
    return;
  ++state.times_back;
  warnings_.push_back(
      fmt::format("{} was silent for {:.1f} s and is back ({} so far)",
                  rendezvous::rank_text(state), seconds(silence),
                  state.times_back == 1 ? "once" : fmt::format("{} times", state.times_back)));
}

void Detector::State::on_heartbeat(int rank, Heartbeat&& heartbeat, TimePoint now) {
  ObservedRank& state = state_of(rank);
  if (!state.is_here()) return;
  heartbeat.step_seconds = sane_seconds(heartbeat.step_seconds);
  heartbeat.waited_seconds = sane_seconds(heartbeat.waited_seconds);
  heartbeat.steps = std::clamp(heartbeat.steps, std::int64_t{0}, kMaxSteps);
  if (heartbeat.wait) heartbeat.wait->seconds = sane_seconds(heartbeat.wait->seconds);
  heartbeat.silence_limit = sane_limit(heartbeat.silence_limit);
  heartbeat.still_limit = sane_limit(heartbeat.still_limit);
  // All ranks have the same flags, so the limit of one holds for all.
  if (heartbeat.silence_limit)
    reported_silence_limit_ =
        std::max(reported_silence_limit_, duration_of(*heartbeat.silence_limit));
  warn_of_past_silence(state, now);
  const bool has_other_work = heartbeat.busy != state.heartbeat.busy;
  if (has_other_work) state.busy_since = now;
  if (heartbeat.ticks != state.heartbeat.ticks || has_other_wait(state.heartbeat, heartbeat) ||
      has_other_work)
    state.last_moved = now;
  state.last_heard = now;
  state.heartbeat = std::move(heartbeat);
  for (const rendezvous::SlowRank& slow : slow_.on_heartbeat(rank, states_))
    if (slow_lines_.size() < kMaxWarnings)
      slow_lines_.push_back(fmt::format(
          "{} is slow: its own work takes {:.2f} times the median of all ranks, {:.1f} ms a step",
          rendezvous::rank_text(states_[slow.rank]), slow.factor, slow.seconds * 1e3));
}

void Detector::State::on_lost(int rank, const std::string& how) {
  ObservedRank& state = state_of(rank);
  if (state.life == Life::kLeft) return;
  if (state.life == Life::kAbsent) --absent_;
  state.life = Life::kLost;
  if (!failure_) {
    failure_ = FirstFailure{rank, false, how};
  } else if (failure_->rank == rank && !failure_->is_reported && failure_->text != how) {
    failure_->text += "; " + how;
  }
}

void Detector::State::on_failed(int rank, const std::string& reason) {
  if (state_of(rank).life == Life::kLeft || failure_) return;
  failure_ = FirstFailure{rank, true, reason};
}

void Detector::State::on_left(int rank) {
  ObservedRank& state = state_of(rank);
  if (!state.is_here()) return;
  state.life = Life::kLeft;
  somebody_left_ = true;
}

// ---------------------------------------------------------------------------------------------
// Verdicts.

bool Detector::State::is_stale(const ObservedRank& state, TimePoint now) const {
  return now - state.last_heard >
         std::min<Clock::duration>(rendezvous::kStaleHeartbeat, silence_limit(state) / 2);
}

bool Detector::State::same_host(int first, int second) const {
  return states_[first].place.host == states_[second].place.host;
}

// Whether `ranks` are all ranks of one host that has several.
bool Detector::State::are_whole_host(const std::vector<int>& ranks) const {
  const auto of_host = std::ranges::count_if(all(), [&](const ObservedRank& state) {
    return state.place.host == states_[ranks.front()].place.host;
  });
  return ranks.size() > 1 && of_host == static_cast<std::ptrdiff_t>(ranks.size()) &&
         std::ranges::all_of(ranks, [&](int rank) { return same_host(rank, ranks.front()); });
}

Verdict Detector::State::verdict(std::vector<int> culprits, ErrorCode code, std::string reason,
                                 TimePoint now) {
  judged_ = true;
  Verdict verdict;
  verdict.report = rendezvous::report_text(all(), culprits, now);
  const ObservedRank& first = states_[culprits.front()];
  const bool is_still = code != ErrorCode::kTemporary && !is_stale(first, now);
  verdict.host = first.place.host_name;
  verdict.silent_seconds = seconds(now - (is_still ? first.last_moved : first.last_heard));
  verdict.culprits = std::move(culprits);
  verdict.code = code;
  verdict.reason = std::move(reason);
  return verdict;
}

Verdict Detector::State::failure_verdict(TimePoint now) {
  const int first = failure_->rank;
  const ObservedRank& state = states_[first];
  if (failure_->is_reported) {
    Verdict reported = verdict({first}, ErrorCode::kTemporary,
                               fmt::format("rank {} ({}): {}", first, rendezvous::host_text(state),
                                           rendezvous::one_line(failure_->text, kMaxReason)),
                               now);
    reported.is_reported = true;
    return reported;
  }
  // When a host loses its power or network, its connections end one after the other, but by then
  // all of its ranks have been silent for a while.
  std::vector<int> culprits = {first};
  for (const ObservedRank& other : all()) {
    if (other.place.rank == first || !same_host(other.place.rank, first)) continue;
    if (other.life == Life::kLost || (other.is_here() && is_stale(other, now)))
      culprits.push_back(other.place.rank);
  }
  const bool host = several_hosts_ && are_whole_host(culprits);
  if (!host) culprits.resize(1);
  return verdict(culprits, ErrorCode::kTemporary,
                 rendezvous::lost_reason(states_, culprits, host, failure_->text, now), now);
}

std::optional<Verdict> Detector::State::silence_verdict(TimePoint now) {
  const auto silent_for = [&](const ObservedRank& state, Clock::duration limit) {
    return state.is_here() && now - state.last_heard > limit;
  };
  if (std::ranges::none_of(all(), [&](const ObservedRank& state) {
        return silent_for(state, silence_limit(state));
      }))
    return std::nullopt;
  // Ranks that fell silent at the same time.
  std::vector<int> culprits;
  for (const ObservedRank& state : all())
    if (silent_for(state, limit_of_further_culprits(silence_limit(state))))
      culprits.push_back(state.place.rank);
  std::ranges::stable_sort(culprits, {}, [&](int rank) { return states_[rank].last_heard; });
  const bool host = are_whole_host(culprits);
  return verdict(culprits, ErrorCode::kHang,
                 rendezvous::silence_reason(states_, culprits, host, now), now);
}

Detector::Clock::duration Detector::State::silence_limit(const ObservedRank& state) const {
  if (reported_silence_limit_ > Clock::duration{}) return reported_silence_limit_;
  return state.place.host == states_.front().place.host ? limits_.silence : limits_.far_silence;
}

// The largest limit of all ranks; nothing if a rank has no limit.
std::optional<Detector::Clock::duration> Detector::State::still_limit() const {
  Clock::duration limit{};
  for (const ObservedRank& state : all()) {
    if (!state.is_here()) continue;
    if (!state.heartbeat.still_limit) {
      limit = std::max<Clock::duration>(limit, limits_.still);
    } else if (*state.heartbeat.still_limit == 0) {
      return std::nullopt;
    } else {
      limit = std::max(limit, duration_of(*state.heartbeat.still_limit));
    }
  }
  return somebody_left_ ? std::max<Clock::duration>(limit, limits_.leaving) : limit;
}

std::vector<rendezvous::GraphRank> Detector::State::graph(TimePoint now,
                                                          Clock::duration limit) const {
  using Kind = rendezvous::GraphRank::Kind;
  std::vector<rendezvous::GraphRank> ranks(all().size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const ObservedRank& state = states_[i];
    rendezvous::GraphRank& rank = ranks[i];
    rank.since = state.last_moved;
    if (!state.is_here()) {
      rank.kind = Kind::kGone;
      continue;
    }
    const bool still = now - state.last_moved > limit && !is_stale(state, now);
    if (still) rank.kind = state.heartbeat.wait ? Kind::kWaiting : Kind::kStill;
    if (!state.heartbeat.wait) continue;
    rank.group = state.heartbeat.wait->place.group;
    rank.number = state.heartbeat.wait->place.number;
    rank.missing = state.heartbeat.wait->missing;
    rank.lists_all = state.heartbeat.wait->lists_all();
  }
  return ranks;
}

std::optional<Verdict> Detector::State::stillness_verdict(TimePoint now) {
  const std::optional<Clock::duration> most = still_limit();
  if (!most) return std::nullopt;
  const Clock::duration limit = *most;
  const auto is_still = [&](const ObservedRank& state) {
    return state.is_here() && now - state.last_moved > limit;
  };
  if (std::ranges::none_of(all(), is_still)) return std::nullopt;
  // While all are excused, the graph changes with their heartbeats only.
  if (last_excused_ && now - *last_excused_ < rendezvous::kHeartbeatPeriod) return std::nullopt;
  std::vector<int> culprits = rendezvous::find_culprits(graph(now, limit));
  if (culprits.empty()) {
    last_excused_ = now;
    return std::nullopt;
  }
  // If the culprit is not in a wait, there may be others that stopped at the same time.
  if (!states_[culprits.front()].heartbeat.wait)
    culprits = rendezvous::find_culprits(graph(now, limit_of_further_culprits(limit)));
  // A file system that does not answer is not the program's fault.
  const bool in_file = !states_[culprits.front()].heartbeat.access.empty();
  return verdict(culprits, in_file ? ErrorCode::kIo : ErrorCode::kHang,
                 rendezvous::stillness_reason(states_, culprits, now), now);
}

std::optional<Verdict> Detector::State::judge(TimePoint now) {
  last_judge_ = now;
  if (judged_) return std::nullopt;
  if (failure_) return failure_verdict(now);
  if (!all_joined()) return std::nullopt;
  if (auto silent = silence_verdict(now)) return silent;
  return stillness_verdict(now);
}

std::string Detector::State::busy_ranks(TimePoint now) const {
  std::string text;
  std::size_t busy = 0;
  for (const ObservedRank& state : all()) {
    if (!state.is_here() || !state.is_busy()) continue;
    if (++busy > kMaxBusyNamed) continue;
    text += fmt::format("{}rank {}, which has been {} for {:.0f} s", busy == 1 ? "" : "; ",
                        state.place.rank, rendezvous::one_line(state.heartbeat.busy),
                        std::max(0.0, seconds(now - state.busy_since)));
    if (!state.heartbeat.busy_progress.empty())
      text += fmt::format(" ({})", rendezvous::one_line(state.heartbeat.busy_progress));
  }
  if (busy > kMaxBusyNamed) text += fmt::format("; and {} more", busy - kMaxBusyNamed);
  return text;
}

// ---------------------------------------------------------------------------------------------

Detector::Detector(std::vector<RankPlace> places) : Detector(std::move(places), Limits{}) {}
Detector::Detector(std::vector<RankPlace> places, const Limits& limits)
    : state_(std::make_unique<State>(std::move(places), limits)) {}
Detector::Detector(Detector&&) noexcept = default;
Detector& Detector::operator=(Detector&&) noexcept = default;
Detector::~Detector() = default;

void Detector::on_joined(int rank, int pid, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->on_joined(rank, pid, now);
}

void Detector::on_heartbeat(int rank, Heartbeat heartbeat, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->on_heartbeat(rank, std::move(heartbeat), now);
}

void Detector::on_lost(int rank, const std::string& how, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->on_lost(rank, how);
}

void Detector::on_failed(int rank, const std::string& reason, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->on_failed(rank, reason);
}

void Detector::on_left(int rank) { state_->on_left(rank); }

std::optional<Verdict> Detector::judge(Clock::time_point now) {
  state_->account_for_own_gap(now);
  return state_->judge(now);
}

std::vector<std::string> Detector::slow_ranks() { return state_->slow_ranks(); }

std::vector<std::string> Detector::warnings() { return state_->warnings(); }

std::uint64_t Detector::visited() const { return state_->visited(); }

std::string Detector::busy_ranks(Clock::time_point now) const { return state_->busy_ranks(now); }

}  // namespace phalanx
