#pragma once
// Schedules for tests of their generators.

#include <string>
#include <string_view>

#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/simulator.h"

namespace phalanx {

inline Schedule schedule_of(std::string_view kind, int ranks, int microbatches, int chunks = 0) {
  return make_schedule(kind, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
}

inline Costs costs_of(double forward, double backward_input, double backward_weight,
                      double latency = 0.0) {
  return {.stages = std::vector<StageCosts>(1, {forward, backward_input, backward_weight}),
          .latency = latency};
}

inline TimelineMeasures measures_of(const Schedule& schedule, const Costs& costs = {}) {
  return simulate(schedule, costs).measures;
}

// "F0.0 B0.0;F0.0 B0.0;"
inline std::string passes_of(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::string_view separator;
    for (const Action& action : actions) {
      if (!is_pass(action.kind)) continue;
      text.append(separator).append(pass_name(action, schedule.placement));
      separator = " ";
    }
    text += ';';
  }
  return text;
}

}  // namespace phalanx
