#pragma once
// The schedule of the global batch that the flags ask for: one size, --rampup-batch-size or
// --step-batch-size-schedule.

#include <string>

#include "phalanx/settings/batch_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// ConfigError if the flags make no schedule.
BatchSchedule given_batches(const TrainConfig& config);

// "--rampup-batch-size 8 4 1000", for messages.
std::string rampup_text(const LayoutConfig& layout);

}  // namespace phalanx
