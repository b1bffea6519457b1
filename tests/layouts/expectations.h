#pragma once
// What tests of layouts expect of a training beside another one. With PHALANX_SHOW_DISTANCES=1 the
// distances are printed, one layout a line.

#include <map>
#include <string>
#include <utility>

#include "harness.h"

namespace phalanx {

// Trainings that several layouts are compared with are run once.
class Trainings {
 public:
  // The layout must be legal.
  const TrainingResult& of(const Layout& layout, int steps);

 private:
  std::map<std::pair<std::string, int>, TrainingResult> results_;  // by name and steps
};

// Trains a legal layout and expects of it what every layout must have: no faults, no skipped step,
// the traffic that was planned, a first step of its own gradients, and the bits of the same ranks
// without what must not change a bit.
TrainingResult expect_training(const Layout& layout, int steps, Trainings& trainings);

// Equal to rounding, as near as the layout's sums can be.
void expect_close(const TrainingResult& result, const TrainingResult& one_rank,
                  const Layout& layout);

// That the first step is what Adam makes of its gradients. Main parameters are fp32, so this is as
// tight in 16-bit steps.
void expect_step_of_own_gradients(const TrainingResult& result, const TrainConfig& config);

// What every rank began in a step: as planned, and as much as really moved.
void expect_planned_traffic(const TrainingResult& result);
// And as the formulas say, which are of models whose parameters are all trained.
void expect_traffic(const TrainingResult& result, const TrainConfig& config);

// Whether products of everything are wanted, not covering sets.
bool is_nightly();

}  // namespace phalanx
