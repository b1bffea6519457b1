#pragma once
// Programs for tests of the clock.

#include <utility>
#include <vector>

#include "phalanx/clock/program_clock.h"

namespace phalanx {

inline ClockEvent compute(double seconds, TimePart part = TimePart::kProducts) {
  return {.kind = ClockEvent::Kind::kCompute, .part = part, .seconds = seconds};
}
// Each part has a channel of its own.
inline ClockEvent begin(int token, const FlowCost& cost, TimePart part = TimePart::kTensor) {
  return {.kind = ClockEvent::Kind::kBegin,
          .part = part,
          .cost = cost,
          .token = token,
          .channel = static_cast<int>(part)};
}
inline ClockEvent begin(int token, double seconds, TimePart part = TimePart::kTensor) {
  return begin(token, FlowCost{.seconds = seconds}, part);
}
inline ClockEvent await(int token) { return {.kind = ClockEvent::Kind::kAwait, .token = token}; }

// A rank that does these actions.
inline ClockRank rank_of(std::vector<std::pair<Action, ClockAction>> actions, int node = 0) {
  ClockRank rank{.node = node};
  for (auto& [action, costs] : actions) {
    rank.numbers.push_back(rank.distinct.size());
    rank.actions.push_back(action);
    rank.distinct.push_back(std::move(costs));
  }
  return rank;
}
// A rank of one pass.
inline ClockRank rank_of(const std::vector<ClockEvent>& events, int node = 0,
                         double host_seconds = 0.0) {
  return rank_of({{pass(ActionKind::kForward, 0, 0),
                   ClockAction{.events = events, .host_seconds = host_seconds}}},
                 node);
}

inline double part_of(const ClockedStep& step, TimePart part, std::size_t rank = 0) {
  return step.parts[rank][static_cast<std::size_t>(part)];
}

}  // namespace phalanx
