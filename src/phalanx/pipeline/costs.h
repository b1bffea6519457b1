#pragma once
// The durations of passes and messages, in any unit of time.

#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

struct StageCosts {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
  double backward() const { return backward_input + backward_weight; }
  // Of a pass; 0 of any other action.
  double of(ActionKind kind) const {
    switch (kind) {
      case ActionKind::kForward:
        return forward;
      case ActionKind::kBackward:
        return backward();
      case ActionKind::kBackwardInput:
        return backward_input;
      case ActionKind::kBackwardWeight:
        return backward_weight;
      default:
        return 0.0;
    }
  }

  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

struct Costs {
  // By stage; a single entry holds for every stage.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  // A message between ranks takes `latency`, and message_bytes / bandwidth if there is a bandwidth.
  double latency = 0.0;
  double message_bytes = 0.0;
  double bandwidth = 0.0;

  const StageCosts& stage(int stage) const {
    return stages.size() == 1 ? stages.front() : stages[static_cast<std::size_t>(stage)];
  }
  double message() const { return latency + (bandwidth > 0.0 ? message_bytes / bandwidth : 0.0); }
};

}  // namespace phalanx
