#include "phalanx/clock/critical_path.h"

#include <algorithm>

namespace phalanx {
namespace {

// What a rank does in a row at one action: its work together, and its waits by what they are for.
std::vector<CriticalStep> by_action(const std::vector<CriticalStep>& path) {
  std::vector<CriticalStep> merged;
  std::size_t first = 0;  // of the action
  for (const CriticalStep& step : path) {
    if (!merged.empty() &&
        (merged.back().rank != step.rank || merged.back().action != step.action)) {
      first = merged.size();
    }
    const auto alike =
        std::find_if(merged.begin() + static_cast<std::ptrdiff_t>(first), merged.end(),
                     [&](const CriticalStep& other) { return other.waits_for == step.waits_for; });
    if (alike == merged.end()) {
      merged.push_back(step);
    } else {
      alike->seconds += step.seconds;
    }
  }
  return merged;
}

}  // namespace

std::vector<CriticalStep> critical_path(const std::vector<std::vector<Stretch>>& stretches,
                                        const std::vector<ClockRank>& ranks, int rank) {
  std::vector<CriticalStep> path;
  const std::vector<Stretch>& last = stretches[static_cast<std::size_t>(rank)];
  double time = last.empty() ? 0.0 : last.back().end;
  while (time > 0.0) {
    const std::vector<Stretch>& of_rank = stretches[static_cast<std::size_t>(rank)];
    // The stretch that ends at this time, or in which it is.
    const auto after = std::ranges::lower_bound(of_rank, time, {}, &Stretch::end);
    if (after == of_rank.end()) break;
    const auto& actions = ranks[static_cast<std::size_t>(rank)].actions;
    const Action action = after->action < actions.size() ? actions[after->action] : Action{};
    if (!after->waits_for) {
      path.push_back({rank, action, std::nullopt, time - after->begin});
      time = after->begin;
      continue;
    }
    path.push_back({rank, action, after->waits_for, time - after->cause.time});
    time = after->cause.time;
    rank = after->cause.rank;
  }
  std::ranges::reverse(path);
  return by_action(path);
}

}  // namespace phalanx
