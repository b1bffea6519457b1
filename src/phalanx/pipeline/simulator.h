#pragma once
// When every pass of a schedule would run if passes and messages took exactly what they cost: each
// rank does its list in order, each pass as soon as what it reads is there.

#include <optional>
#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct TimedAction {
  Action action;
  double begin = 0.0;
  double end = 0.0;
};
// By rank: what the pictures are drawn from, simulated or measured.
using Timeline = std::vector<std::vector<TimedAction>>;

// How much of a timeline is work. The three measures of a bubble that are in use differ: the share
// of idle time; the time beyond the ideal, over the ideal (Megatron's); the same of the span, over
// the span (zero-bubble paper), which does not count that ranks begin one after the other.
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
  Timeline timeline;  // passes alone
  TimelineMeasures measures;
  // Of schedules whose passes are paired: where a pair is one piece of work, and what either makes
  // is there at its end.
  std::optional<double> atomic_makespan;
  // Where microbatches enter at one rank: no schedule that waits for all ranks at its end is
  // faster.
  std::optional<double> lower_bound;
};

// InternalError where the lists wait for each other: verify first.
Simulation simulate(const Schedule& schedule, const Costs& costs);

// The most that each rank holds at once, counted in activations of one chunk and microbatch: a
// forward pass adds one, the input gradient takes 1 - kept away, the weight gradient the rest.
// `kept` 0: all is freed at the (input) gradient; 1: where the weight gradient is computed alone,
// at that.
std::vector<double> peak_activations(const Schedule& schedule, double kept);
double peak_activations(const std::vector<Action>& list, double kept);

}  // namespace phalanx
