#pragma once
// Simulates a schedule with given durations of passes and messages: each rank does its list in
// order, each pass as soon as its inputs are there.

#include <optional>
#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct TimedAction {
  Action action;
  double begin = 0.0;
  double end = 0.0;
};
// By rank; simulated or measured. The pictures are drawn from it.
using Timeline = std::vector<std::vector<TimedAction>>;

// How much of a timeline is work. Three measures of the bubble are in use: the share of idle time;
// (makespan - ideal) / ideal (Megatron's); (span - ideal) / span (the zero-bubble paper's), which
// does not count that ranks begin one after the other.
struct TimelineMeasures {
  double makespan = 0.0;  // from the first begin to the last end of any rank
  double span = 0.0;      // the longest from the first begin to the last end of one rank
  double ideal = 0.0;     // the most work of a rank
  double idle_fraction = 0.0;
  double bubble_over_ideal = 0.0;
  double span_bubble = 0.0;
};
TimelineMeasures measure(const Timeline& timeline);

struct Simulation {
  Timeline timeline;  // passes only
  TimelineMeasures measures;
  // Of schedules with paired passes: the makespan if a pair is one piece of work (Replay::Pairs).
  std::optional<double> atomic_makespan;
  // If microbatches enter at one rank: no schedule that waits for all ranks at its end is faster.
  std::optional<double> lower_bound;
};

// The passes of every rank. InternalError if the lists wait for each other: verify() first.
Timeline timeline_of(const Schedule& schedule, const Costs& costs);

// InternalError as timeline_of().
Simulation simulate(const Schedule& schedule, const Costs& costs);

// The peak of each rank's saved memory, in activations of one chunk and microbatch: a forward pass
// adds 1, the input gradient frees 1 - kept, the weight gradient frees the rest.
std::vector<double> peak_activations(const Schedule& schedule, double kept);
double peak_activations(const std::vector<Action>& list, double kept);

}  // namespace phalanx
