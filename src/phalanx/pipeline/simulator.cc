#include "phalanx/pipeline/simulator.h"

#include <algorithm>
#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/replay.h"

namespace phalanx {
namespace {

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, &Action::paired);
  });
}

bool all_backward_is_fused(const Schedule& schedule) {
  return std::ranges::none_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& action) {
      return action.kind == ActionKind::kBackwardInput ||
             action.kind == ActionKind::kBackwardWeight;
    });
  });
}

Timeline replayed(const Schedule& schedule, const Costs& costs, Replay::Pairs pairs) {
  Timeline timeline(schedule.ranks.size());
  for (std::size_t rank = 0; rank < timeline.size(); ++rank) {
    timeline[rank].reserve(schedule.ranks[rank].size());
  }
  Replay replay(schedule, costs, pairs);
  const bool finished =
      replay.run([&](std::size_t rank, std::size_t index, double begin, double end) {
        timeline[rank].push_back({schedule.ranks[rank][index], begin, end});
      });
  PHALANX_CHECK(finished, "the ranks of schedule {} wait for each other", schedule.kind);
  return timeline;
}

// The way from the rank where microbatches enter to a rank's first stage, plus the rank's own work.
// If backward passes are fused, plus the way back: the rank's last pass is the backward pass of one
// of its stages, and those of the stages before still follow.
double lower_bound(const Schedule& schedule, const Costs& costs) {
  const Placement& placement = schedule.placement;
  const double backward_share = schedule.forward_only ? 0.0 : 1.0;
  const bool way_back = !schedule.forward_only && all_backward_is_fused(schedule);
  double bound = 0.0;
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const int first = placement.stage(rank, 0);
    double time = 0.0;
    for (int stage = 0; stage < first; ++stage) {
      const bool crosses = placement.rank(stage) != placement.rank(stage + 1);
      const double message = crosses ? costs.message() : 0.0;
      time += costs.stage(stage).forward + message;
      if (way_back) time += costs.stage(stage).backward() + message;
    }
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const StageCosts& stage = costs.stage(placement.stage(rank, chunk));
      time += schedule.microbatches * (stage.forward + backward_share * stage.backward());
    }
    bound = std::max(bound, time);
  }
  return bound;
}

}  // namespace

TimelineMeasures measure(const Timeline& timeline) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  TimelineMeasures measures;
  double first = kNever;
  double last = -kNever;
  double all_work = 0.0;
  for (const std::vector<TimedAction>& rank : timeline) {
    double work = 0.0;
    double rank_first = kNever;
    double rank_last = -kNever;
    for (const TimedAction& timed : rank) {
      if (!is_pass(timed.action.kind)) continue;
      work += timed.end - timed.begin;
      rank_first = std::min(rank_first, timed.begin);
      rank_last = std::max(rank_last, timed.end);
    }
    if (rank_first == kNever) continue;
    first = std::min(first, rank_first);
    last = std::max(last, rank_last);
    measures.span = std::max(measures.span, rank_last - rank_first);
    measures.ideal = std::max(measures.ideal, work);
    all_work += work;
  }
  if (measures.span <= 0.0) return measures;
  measures.makespan = last - first;
  measures.idle_fraction =
      1.0 - all_work / (static_cast<double>(timeline.size()) * measures.makespan);
  measures.span_bubble = (measures.span - measures.ideal) / measures.span;
  if (measures.ideal > 0.0) {
    measures.bubble_over_ideal = (measures.makespan - measures.ideal) / measures.ideal;
  }
  return measures;
}

Timeline timeline_of(const Schedule& schedule, const Costs& costs) {
  return replayed(schedule, costs, Replay::Pairs::kApart);
}

Simulation simulate(const Schedule& schedule, const Costs& costs) {
  Simulation simulation;
  simulation.timeline = timeline_of(schedule, costs);
  simulation.measures = measure(simulation.timeline);
  if (has_pairs(schedule)) {
    simulation.atomic_makespan =
        measure(replayed(schedule, costs, Replay::Pairs::kAtomic)).makespan;
  }
  if (schedule.placement.directions() == 1) {
    simulation.lower_bound = lower_bound(schedule, costs);
  }
  return simulation;
}

double peak_activations(const std::vector<Action>& list, double kept) {
  // Counted separately, so that whole numbers are exact.
  int whole = 0;
  int remainders = 0;  // what the weight gradient still needs
  double peak = 0.0;
  for (const Action& action : list) {
    if (action.kind == ActionKind::kForward) {
      ++whole;
    } else if (makes_input_gradient(action.kind)) {
      --whole;
      if (action.kind == ActionKind::kBackwardInput) ++remainders;
    } else if (action.kind == ActionKind::kBackwardWeight) {
      --remainders;
    }
    peak = std::max(peak, whole + kept * remainders);
  }
  return peak;
}

std::vector<double> peak_activations(const Schedule& schedule, double kept) {
  std::vector<double> peaks;
  for (const std::vector<Action>& list : schedule.ranks) {
    peaks.push_back(peak_activations(list, kept));
  }
  return peaks;
}

}  // namespace phalanx
