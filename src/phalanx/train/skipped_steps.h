#pragma once
// Counts steps that were skipped because gradients were not finite. A loss scale skips some of them
// on purpose; many in a row, or all of a run, mean that it does not train.

#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/optim/loss_scaler.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class SkippedSteps {
 public:
  explicit SkippedSteps(const TrainConfig& config) : config_(config) {}

  // After a step. A warning where 10, 100, 1,000, ... in a row were skipped: why, and what to do.
  // `scaler` has taken the step in.
  std::optional<std::string> after(std::int64_t iteration, bool was_skipped, double loss,
                                   const LossScaler& scaler);
  std::int64_t skipped() const { return skipped_; }

  // The reason that the last step was skipped, in words, with what to do.
  std::string reason(const LossScaler& scaler) const;

 private:
  const TrainConfig& config_;
  std::int64_t skipped_ = 0;  // in all
  std::int64_t in_a_row_ = 0;
  std::int64_t next_warning_ = 10;
  bool loss_is_finite_ = true;  // of the last step
};

}  // namespace phalanx
