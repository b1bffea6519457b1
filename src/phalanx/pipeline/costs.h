#pragma once
// What passes and messages take, in any unit of time.

#include <vector>

namespace phalanx {

struct StageCosts {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
  double backward() const { return backward_input + backward_weight; }

  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

struct Costs {
  // By stage; a single one is that of every stage.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  // From one rank to another: `latency`, and message_bytes / bandwidth where there is a bandwidth.
  double latency = 0.0;
  double message_bytes = 0.0;
  double bandwidth = 0.0;

  const StageCosts& stage(int stage) const {
    return stages.size() == 1 ? stages.front() : stages[static_cast<std::size_t>(stage)];
  }
  double message() const { return latency + (bandwidth > 0.0 ? message_bytes / bandwidth : 0.0); }
};

}  // namespace phalanx
