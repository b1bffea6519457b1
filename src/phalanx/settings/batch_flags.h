#pragma once
// The global batch as its flags give it: one size, --rampup-batch-size or
// --step-batch-size-schedule.

#include <string>

#include "phalanx/settings/batch_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// ConfigError where the flags say nothing that can be a schedule.
BatchSchedule given_batches(const TrainConfig& config);

// "--rampup-batch-size 8 4 1000", for messages.
std::string rampup_text(const LayoutConfig& layout);

}  // namespace phalanx
