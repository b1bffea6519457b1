#pragma once
// How far two trainings are apart. Nothing here asserts: messages come back, empty where all is
// well.

#include <string>

#include "harness.h"

namespace phalanx {

// The first number of anything that has not the same bits; empty where there is none.
std::string first_difference(const TrainingResult& a, const TrainingResult& b);

// The largest of each kind, and where it is.
struct Distance {
  double loss = 0.0;       // relative, over all steps
  double grad_norm = 0.0;  // likewise
  // Of any parameter at step 1: |a - b| / max(|b|, 1e-3 |all of b|).
  double gradient = 0.0;
  // Of any parameter at the end: |a - b| / |b - initial|. Key rows of biases are left out:
  // their gradient is zero but for rounding, which Adam makes as large as any other.
  double weight = 0.0;
  double all_weights = 0.0;  // of all parameters together
  // Of any parameter's second moments at the end, as gradients.
  double moment = 0.0;
  std::string gradient_of, weight_of, moment_of;
};
Distance distance(const TrainingResult& a, const TrainingResult& b);

// How far step 1 is from what the training's own gradients make of it: the norm, and behind Adam
// the first moments and main parameters. All of these are fp32 however the weights are stored, and
// nothing else is rounded on the way.
struct StepError {
  double grad_norm = 0.0;  // relative
  double moment = 0.0;     // first moment of any parameter, relative
  double weight = 0.0;     // of any element, in learning rates
  std::string moment_of, weight_of;
};
StepError error_of_first_step(const TrainingResult& result, const TrainConfig& config);

}  // namespace phalanx
