#include "phalanx/comm/rendezvous/slow_ranks.h"

#include <algorithm>
#include <cmath>

namespace phalanx::rendezvous {
namespace {

constexpr int kWindowsUntilSlow = 3;
// What the system's own scheduling makes of short steps is no slow rank.
constexpr double kLeastDifference = 1e-3;

// The lower of the two in the middle: of two ranks one can be slow.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

SlowRanks::SlowRanks(int world_size, double factor, int window_steps)
    : factor_(factor),
      window_steps_(window_steps),
      windows_(static_cast<std::size_t>(world_size)),
      complete_(static_cast<std::size_t>(world_size), false) {}

std::vector<SlowRank> SlowRanks::heard(int rank, const std::vector<RankState>& states) {
  const RankState& state = states[rank];
  somebody_busy_ = somebody_busy_ || state.is_busy();
  if (complete_[rank] || state.last.steps - windows_[rank].steps < window_steps_) return {};
  complete_[rank] = true;
  ++complete_count_;
  if (complete_count_ < static_cast<int>(states.size())) return {};
  std::vector<double> own(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Heartbeat& last = states[i].last;
    const Window& window = windows_[i];
    own[i] = ((last.step_seconds - window.step_seconds) -
              (last.waited_seconds - window.waited_seconds)) /
             static_cast<double>(last.steps - window.steps);
  }
  std::vector<SlowRank> slow;
  if (!somebody_busy_ && std::ranges::all_of(own, [](double x) { return std::isfinite(x); }))
    slow = compare(own);
  begin_window(states);
  return slow;
}

std::vector<SlowRank> SlowRanks::compare(const std::vector<double>& own) {
  const double median = std::max(lower_median(own), 0.0);
  std::vector<SlowRank> newly;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const bool is_slow = own[rank] >= factor_ * median && own[rank] - median >= kLeastDifference;
    int& count = windows_[rank].slow_windows;
    count = is_slow ? count + 1 : 0;
    // Past that number it has been named, and is again only after it was normal.
    if (count == kWindowsUntilSlow)
      newly.push_back({static_cast<int>(rank), own[rank] / std::max(median, 1e-9), own[rank]});
  }
  return newly;
}

void SlowRanks::begin_window(const std::vector<RankState>& states) {
  somebody_busy_ = false;
  complete_count_ = 0;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const Heartbeat& last = states[rank].last;
    windows_[rank].step_seconds = last.step_seconds;
    windows_[rank].waited_seconds = last.waited_seconds;
    windows_[rank].steps = last.steps;
    complete_[rank] = false;
  }
}

}  // namespace phalanx::rendezvous
