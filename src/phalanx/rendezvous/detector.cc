#include "phalanx/rendezvous/detector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "phalanx/rendezvous/rank_state.h"
#include "phalanx/rendezvous/slow_ranks.h"
#include "phalanx/rendezvous/verdict_text.h"
#include "phalanx/rendezvous/wait_graph.h"

namespace phalanx {

using rendezvous::RankState;
using rendezvous::seconds;
using TimePoint = Detector::Clock::time_point;
using Life = RankState::Life;

namespace {

// Two heartbeats and a bit: a rank of which nothing came for so long is not where it last was.
constexpr auto kStale = std::chrono::milliseconds(1200);
// A watcher that was not asked for so long did not run itself.
constexpr auto kOwnGap = std::chrono::seconds(1);
constexpr double kMaxSeconds = 1e9;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 50;
constexpr std::size_t kMaxWarnings = 64;  // kept for who does not ask
constexpr std::size_t kMaxBusyNamed = 3;
constexpr std::size_t kMaxReason = 1000;

double sane_seconds(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.0, kMaxSeconds) : 0.0;
}

// Of ranks that stopped at the same time one passes the limit first: the others have by then
// passed this one, for heartbeats come at different times.
Detector::Clock::duration together(Detector::Clock::duration limit) {
  return std::max<Detector::Clock::duration>(limit - std::chrono::seconds(1), limit / 2);
}

Detector::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Detector::Clock::duration>(
      std::chrono::duration<double>(seconds));
}

// What a rank says where a limit of its own holds.
std::optional<double> sane_limit(const std::optional<double>& said) {
  if (!said || !std::isfinite(*said) || *said < 0) return std::nullopt;
  return std::min(*said, kMaxSeconds);
}

// Its wait began, ended, or is another one: between the end of a wait and the tick that follows a
// rank is not still.
bool waits_elsewhere(const Heartbeat& before, const Heartbeat& now) {
  if (before.wait.has_value() != now.wait.has_value()) return true;
  if (!now.wait) return false;
  const CommPlace& was = before.wait->at;
  const CommPlace& is = now.wait->at;
  return was.group != is.group || was.operation != is.operation || was.number != is.number;
}

}  // namespace

class Detector::State {
 public:
  State(std::vector<RankPlace> places, const Limits& limits);

  void account_for_own_gap(TimePoint now);
  void joined(int rank, int pid, TimePoint now);
  void heard(int rank, const Heartbeat& heartbeat, TimePoint now);
  void lost(int rank, const std::string& how);
  void failed(int rank, const std::string& reason);
  void left(int rank);
  std::optional<Verdict> judge(TimePoint now);
  std::vector<std::string> slow_ranks() { return std::exchange(slow_lines_, {}); }
  std::vector<std::string> warnings() { return std::exchange(warnings_, {}); }
  std::string busy_ranks(TimePoint now) const;

 private:
  // The first rank that was lost or failed.
  struct End {
    int rank = 0;
    bool said = false;  // it failed, and said so
    std::string text;
  };

  RankState& at(int rank);
  bool all_joined() const { return absent_ == 0; }
  bool is_stale(const RankState& state, TimePoint now) const;
  bool whole_host(const std::vector<int>& ranks) const;
  bool same_host(int first, int second) const;
  void note_silence_before(RankState& state, TimePoint now);
  Clock::duration silence_limit(const RankState& state) const;
  std::optional<Clock::duration> still_limit() const;
  Verdict verdict(std::vector<int> culprits, ErrorCode code, std::string reason, TimePoint now);
  Verdict end_verdict(TimePoint now);
  std::optional<Verdict> silence_verdict(TimePoint now);
  std::optional<Verdict> stillness_verdict(TimePoint now);
  std::vector<rendezvous::GraphRank> graph(TimePoint now, Clock::duration limit) const;

  Limits limits_;
  rendezvous::States states_;
  rendezvous::SlowRanks slow_;
  std::vector<std::string> slow_lines_;
  std::vector<std::string> warnings_;
  bool several_hosts_ = false;
  int absent_ = 0;
  bool somebody_left_ = false;
  Clock::duration said_silence_{};  // by ranks; zero: nobody has said one
  bool judged_ = false;
  std::optional<TimePoint> last_judge_;
  std::optional<End> end_;
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

RankState& Detector::State::at(int rank) {
  PHALANX_CHECK(rank >= 0 && rank < static_cast<int>(states_.size()), "rank {} of {}", rank,
                states_.size());
  return states_[rank];
}

// ---------------------------------------------------------------------------------------------
// What is heard.

// Before anything is noted with a time of after the gap.
void Detector::State::account_for_own_gap(TimePoint now) {
  if (!last_judge_ || now - *last_judge_ <= kOwnGap) return;
  const Clock::duration gap = now - *last_judge_;
  for (RankState& state : states_) {
    state.heard = std::min(now, state.heard + gap);
    state.moved = std::min(now, state.moved + gap);
    state.busy_since = std::min(now, state.busy_since + gap);
  }
  last_judge_ = now;
}

void Detector::State::joined(int rank, int pid, TimePoint now) {
  RankState& state = at(rank);
  PHALANX_CHECK(state.life == Life::kAbsent, "rank {} joins twice", rank);
  state.life = Life::kHere;
  state.pid = pid;
  state.heard = state.moved = now;
  --absent_;
  if (!all_joined()) return;
  // While some were missing there was nothing to do for the others.
  for (RankState& other : states_) other.heard = other.moved = now;
}

void Detector::State::note_silence_before(RankState& state, TimePoint now) {
  const auto silence = now - state.heard;
  if (!all_joined() || silence < silence_limit(state) / 2 || warnings_.size() >= kMaxWarnings)
    return;
  ++state.times_back;
  warnings_.push_back(
      fmt::format("{} was silent for {:.1f} s and is back ({} so far)",
                  rendezvous::rank_text(state), seconds(silence),
                  state.times_back == 1 ? "once" : fmt::format("{} times", state.times_back)));
}

void Detector::State::heard(int rank, const Heartbeat& said, TimePoint now) {
  RankState& state = at(rank);
  if (!state.is_here()) return;
  Heartbeat heartbeat = said;
  heartbeat.step_seconds = sane_seconds(said.step_seconds);
  heartbeat.waited_seconds = sane_seconds(said.waited_seconds);
  heartbeat.steps = std::clamp(said.steps, std::int64_t{0}, kMaxSteps);
  if (heartbeat.wait) heartbeat.wait->seconds = sane_seconds(heartbeat.wait->seconds);
  heartbeat.silence_limit = sane_limit(said.silence_limit);
  heartbeat.still_limit = sane_limit(said.still_limit);
  // All ranks have the same flags, and the first heartbeat may be another's.
  if (heartbeat.silence_limit)
    said_silence_ = std::max(said_silence_, duration_of(*heartbeat.silence_limit));
  note_silence_before(state, now);
  const bool is_busy_elsewhere = heartbeat.busy != state.last.busy;
  if (is_busy_elsewhere) state.busy_since = now;
  if (heartbeat.ticks != state.last.ticks || waits_elsewhere(state.last, heartbeat) ||
      is_busy_elsewhere)
    state.moved = now;
  state.heard = now;
  state.last = std::move(heartbeat);
  for (const rendezvous::SlowRank& slow : slow_.heard(rank, states_))
    if (slow_lines_.size() < kMaxWarnings)
      slow_lines_.push_back(fmt::format(
          "{} is slow: its own work takes {:.2f} times the median of all ranks, {:.1f} ms a step",
          rendezvous::rank_text(states_[slow.rank]), slow.factor, slow.seconds * 1e3));
}

void Detector::State::lost(int rank, const std::string& how) {
  RankState& state = at(rank);
  if (state.life == Life::kLeft) return;
  if (state.life == Life::kAbsent) --absent_;
  state.life = Life::kLost;
  if (!end_) {
    end_ = End{rank, false, how};
  } else if (end_->rank == rank && !end_->said && end_->text != how) {
    end_->text += "; " + how;
  }
}

void Detector::State::failed(int rank, const std::string& reason) {
  if (at(rank).life == Life::kLeft || end_) return;
  end_ = End{rank, true, reason};
}

void Detector::State::left(int rank) {
  RankState& state = at(rank);
  if (!state.is_here()) return;
  state.life = Life::kLeft;
  somebody_left_ = true;
}

// ---------------------------------------------------------------------------------------------
// What follows from it.

bool Detector::State::is_stale(const RankState& state, TimePoint now) const {
  return now - state.heard > std::min<Clock::duration>(kStale, silence_limit(state) / 2);
}

bool Detector::State::same_host(int first, int second) const {
  return states_[first].place.host == states_[second].place.host;
}

// Whether they are all ranks of one host, of several that it has.
bool Detector::State::whole_host(const std::vector<int>& ranks) const {
  const auto of_host = std::ranges::count_if(states_, [&](const RankState& state) {
    return state.place.host == states_[ranks.front()].place.host;
  });
  return ranks.size() > 1 && of_host == static_cast<std::ptrdiff_t>(ranks.size()) &&
         std::ranges::all_of(ranks, [&](int rank) { return same_host(rank, ranks.front()); });
}

Verdict Detector::State::verdict(std::vector<int> culprits, ErrorCode code, std::string reason,
                                 TimePoint now) {
  judged_ = true;
  Verdict verdict;
  verdict.report = rendezvous::report_text(states_, culprits, now);
  const RankState& first = states_[culprits.front()];
  const bool is_still = code != ErrorCode::kTemporary && !is_stale(first, now);
  verdict.host = first.place.host_name;
  verdict.silent_seconds = seconds(now - (is_still ? first.moved : first.heard));
  verdict.culprits = std::move(culprits);
  verdict.code = code;
  verdict.reason = std::move(reason);
  return verdict;
}

Verdict Detector::State::end_verdict(TimePoint now) {
  const int first = end_->rank;
  const RankState& state = states_[first];
  if (end_->said)
    return verdict({first}, ErrorCode::kTemporary,
                   fmt::format("rank {} ({}): {}", first, rendezvous::host_text(state),
                               rendezvous::one_line(end_->text, kMaxReason)),
                   now);
  // A host whose power or network is gone: its connections end one after the other, but all of
  // its ranks have been silent by then.
  std::vector<int> culprits = {first};
  for (const RankState& other : states_) {
    if (other.place.rank == first || !same_host(other.place.rank, first)) continue;
    if (other.life == Life::kLost || (other.is_here() && is_stale(other, now)))
      culprits.push_back(other.place.rank);
  }
  const bool host = several_hosts_ && whole_host(culprits);
  if (!host) culprits.resize(1);
  return verdict(culprits, ErrorCode::kTemporary,
                 rendezvous::lost_reason(states_, culprits, host, end_->text, now), now);
}

std::optional<Verdict> Detector::State::silence_verdict(TimePoint now) {
  const auto silent_for = [&](const RankState& state, Clock::duration limit) {
    return state.is_here() && now - state.heard > limit;
  };
  if (std::ranges::none_of(
          states_, [&](const RankState& state) { return silent_for(state, silence_limit(state)); }))
    return std::nullopt;
  // Who fell silent at the same time.
  std::vector<int> culprits;
  for (const RankState& state : states_)
    if (silent_for(state, together(silence_limit(state)))) culprits.push_back(state.place.rank);
  std::ranges::stable_sort(culprits, {}, [&](int rank) { return states_[rank].heard; });
  const bool host = whole_host(culprits);
  return verdict(culprits, ErrorCode::kHang,
                 rendezvous::silence_reason(states_, culprits, host, now), now);
}

Detector::Clock::duration Detector::State::silence_limit(const RankState& state) const {
  if (said_silence_ > Clock::duration{}) return said_silence_;
  return state.place.host == states_.front().place.host ? limits_.silence : limits_.far_silence;
}

// The slowest rank's; nothing where a rank may be still for ever.
std::optional<Detector::Clock::duration> Detector::State::still_limit() const {
  Clock::duration limit{};
  for (const RankState& state : states_) {
    if (!state.is_here()) continue;
    if (!state.last.still_limit) {
      limit = std::max<Clock::duration>(limit, limits_.still);
    } else if (*state.last.still_limit == 0) {
      return std::nullopt;
    } else {
      limit = std::max(limit, duration_of(*state.last.still_limit));
    }
  }
  return somebody_left_ ? std::max<Clock::duration>(limit, limits_.leaving) : limit;
}

std::vector<rendezvous::GraphRank> Detector::State::graph(TimePoint now,
                                                          Clock::duration limit) const {
  using Kind = rendezvous::GraphRank::Kind;
  std::vector<rendezvous::GraphRank> ranks(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const RankState& state = states_[i];
    rendezvous::GraphRank& rank = ranks[i];
    rank.since = state.moved;
    if (!state.is_here()) {
      rank.kind = Kind::kGone;
      continue;
    }
    const bool still = now - state.moved > limit && !is_stale(state, now);
    if (still) rank.kind = state.last.wait ? Kind::kWaiting : Kind::kStill;
    if (!state.last.wait) continue;
    rank.group = state.last.wait->at.group;
    rank.number = state.last.wait->at.number;
    rank.missing = state.last.wait->missing;
  }
  return ranks;
}

std::optional<Verdict> Detector::State::stillness_verdict(TimePoint now) {
  const std::optional<Clock::duration> most = still_limit();
  if (!most) return std::nullopt;
  const Clock::duration limit = *most;
  const auto is_still = [&](const RankState& state) {
    return state.is_here() && now - state.moved > limit;
  };
  if (std::ranges::none_of(states_, is_still)) return std::nullopt;
  std::vector<int> culprits = rendezvous::find_culprits(graph(now, limit));
  if (culprits.empty()) return std::nullopt;
  // Where it waits for nobody, so may others that fell still at the same time.
  if (!states_[culprits.front()].last.wait)
    culprits = rendezvous::find_culprits(graph(now, together(limit)));
  // A file system that does not answer is no fault of the program.
  const bool in_file = !states_[culprits.front()].last.access.empty();
  return verdict(culprits, in_file ? ErrorCode::kIo : ErrorCode::kHang,
                 rendezvous::stillness_reason(states_, culprits, now), now);
}

std::optional<Verdict> Detector::State::judge(TimePoint now) {
  last_judge_ = now;
  if (judged_) return std::nullopt;
  if (end_) return end_verdict(now);
  if (!all_joined()) return std::nullopt;
  if (auto silent = silence_verdict(now)) return silent;
  return stillness_verdict(now);
}

std::string Detector::State::busy_ranks(TimePoint now) const {
  std::string text;
  std::size_t busy = 0;
  for (const RankState& state : states_) {
    if (!state.is_here() || !state.is_busy()) continue;
    if (++busy > kMaxBusyNamed) continue;
    text += fmt::format("{}rank {}, which has been {} for {:.0f} s", busy == 1 ? "" : "; ",
                        state.place.rank, rendezvous::one_line(state.last.busy),
                        std::max(0.0, seconds(now - state.busy_since)));
    if (!state.last.moved.empty())
      text += fmt::format(" ({})", rendezvous::one_line(state.last.moved));
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

void Detector::joined(int rank, int pid, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->joined(rank, pid, now);
}

void Detector::heard(int rank, const Heartbeat& heartbeat, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->heard(rank, heartbeat, now);
}

void Detector::lost(int rank, const std::string& how, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->lost(rank, how);
}

void Detector::failed(int rank, const std::string& reason, Clock::time_point now) {
  state_->account_for_own_gap(now);
  state_->failed(rank, reason);
}

void Detector::left(int rank) { state_->left(rank); }

std::optional<Verdict> Detector::judge(Clock::time_point now) {
  state_->account_for_own_gap(now);
  return state_->judge(now);
}

std::vector<std::string> Detector::slow_ranks() { return state_->slow_ranks(); }

std::vector<std::string> Detector::warnings() { return state_->warnings(); }

std::string Detector::busy_ranks(Clock::time_point now) const { return state_->busy_ranks(now); }

}  // namespace phalanx
