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
  // Of any parameter at the end: |a - b| / |b - initial|. Key rows of the QKV bias are left out:
  // their gradient is zero but for rounding, which Adam makes as large as any other.
  double weight = 0.0;
  // Of any parameter's second moments at the end, as gradients.
  double moment = 0.0;
  std::string gradient_of, weight_of, moment_of;
};
Distance distance(const TrainingResult& a, const TrainingResult& b);

}  // namespace phalanx
