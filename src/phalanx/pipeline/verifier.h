#pragma once
// Checks a schedule before anything runs, by the rules of docs/schedules.md: complete, each pass on
// its rank and in a possible order, no ranks that wait for each other, one weight version for all
// passes of a microbatch, which exists and is still there, and memory within a limit.

#include <optional>
#include <string>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

struct VerifierLimits {
  // In activations of one chunk and microbatch, `kept` of which live until the weight gradient.
  std::optional<double> activations = std::nullopt;
  double kept = 1.0;
  // Weight versions that a rank may have to have at once; 0: what the update rule is known for (1;
  // ranks - rank; 2).
  int weight_versions = 0;
};

// ConfigError naming the first action that breaks a rule; where ranks wait for each other, every
// stuck rank's next action and what it waits for.
void verify(const Schedule& schedule, const VerifierLimits& limits = {});

// Why the schedule cannot be trained with, if it cannot: it would add up gradients or losses, or
// load data, in another order than the microbatches', or has two copies of the model.
std::optional<std::string> training_obstacle(const Schedule& schedule);

// The most weight versions, the newest included, that a rank has to have at once.
int live_weight_versions(const Schedule& schedule, int rank);

}  // namespace phalanx
