#include "phalanx/rendezvous/slow_ranks.h"

#include <algorithm>
#include <cstddef>

namespace phalanx::rendezvous {
namespace {

constexpr int kWindowsUntilSlow = 3;
// The median of two ranks is one of them: whichever the machine has just kept waiting looks slow
// beside it. What lasts so long has another cause.
constexpr int kWindowsUntilSlowOfTwo = 20;
// Differences below this come from the system's scheduling of short steps.
constexpr double kLeastDifference = 1e-3;
constexpr std::size_t kMaxSamples = 64;  // of a rank, if another one keeps the window open

// Of an even number of values the lower one in the middle, so that one of two ranks can be slow.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

SlowRanks::SlowRanks(int world_size, double factor, int window_steps)
    : factor_(factor),
      window_steps_(window_steps),
      windows_until_slow_(world_size == 2 ? kWindowsUntilSlowOfTwo : kWindowsUntilSlow),
      windows_(static_cast<std::size_t>(world_size)),
      complete_(static_cast<std::size_t>(world_size), false) {}

void SlowRanks::add_sample(Window& window, const Heartbeat& last) {
  const std::int64_t steps = last.steps - window.steps;
  if (steps == 0) return;
  const double own_seconds = last.step_seconds - last.waited_seconds;
  if (steps > 0 && window.samples.size() < kMaxSamples)
    window.samples.push_back((own_seconds - window.own_seconds) / static_cast<double>(steps));
  window.steps = last.steps;
  window.own_seconds = own_seconds;
}

std::vector<SlowRank> SlowRanks::on_heartbeat(int rank, const std::vector<ObservedRank>& states) {
  const ObservedRank& state = states[rank];
  Window& window = windows_[rank];
  somebody_busy_ = somebody_busy_ || state.is_busy();
  add_sample(window, state.heartbeat);
  if (complete_[rank] || window.samples.empty()) return {};
  if (window.steps - window.first_step < window_steps_) return {};
  complete_[rank] = true;
  ++complete_count_;
  if (complete_count_ < static_cast<int>(states.size())) return {};
  std::vector<double> own;
  for (const Window& of_rank : windows_) own.push_back(lower_median(of_rank.samples));
  std::vector<SlowRank> slow;
  if (!somebody_busy_) slow = compare(own);
  begin_window();
  return slow;
}

std::vector<SlowRank> SlowRanks::compare(const std::vector<double>& own) {
  const double median = std::max(lower_median(own), 0.0);
  std::vector<SlowRank> newly;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const bool is_slow = own[rank] >= factor_ * median && own[rank] - median >= kLeastDifference;
    Window& window = windows_[rank];
    // A rank is reported once, and again only after as many normal windows on end.
    if (is_slow == window.is_reported) {
      window.other_windows = 0;
    } else if (++window.other_windows == windows_until_slow_) {
      window.other_windows = 0;
      window.is_reported = is_slow;
      if (is_slow)
        newly.push_back({static_cast<int>(rank), own[rank] / std::max(median, 1e-9), own[rank]});
    }
  }
  return newly;
}

void SlowRanks::begin_window() {
  somebody_busy_ = false;
  complete_count_ = 0;
  for (std::size_t rank = 0; rank < windows_.size(); ++rank) {
    windows_[rank].first_step = windows_[rank].steps;
    windows_[rank].samples.clear();
    complete_[rank] = false;
  }
}

}  // namespace phalanx::rendezvous
