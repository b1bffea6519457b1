#pragma once
// Checks a schedule before anything runs, by the rules of docs/schedules.md: it is complete; each
// pass is on its rank and in a possible order; no ranks wait for each other; all passes of a
// microbatch read one weight version, which is still kept; memory stays within a limit.

#include <optional>
#include <string>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct VerifierLimits {
  // In activations of one chunk and microbatch; the share `kept` of each lives until the weight
  // gradient.
  std::optional<double> activations = std::nullopt;
  double kept = 1.0;
  // The most weight versions that a rank may keep at once; 0: that of the update rule (1;
  // ranks - rank; 2).
  int weight_versions = 0;
};

// ConfigError that names the first action that breaks a rule. If ranks wait for each other, it
// names every stuck rank's next action and what it waits for.
void verify(const Schedule& schedule, const VerifierLimits& limits = {});

// Why the schedule cannot be used for training, if so: it would add gradients or losses, or load
// data, in another order than that of the microbatches, or it has two copies of the model.
std::optional<std::string> training_obstacle(const Schedule& schedule);

// The most weight versions that a rank must keep at once, including the newest.
int live_weight_versions(const Schedule& schedule, int rank);

}  // namespace phalanx
