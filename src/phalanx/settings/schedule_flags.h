#pragma once
// The schedules of the learning rate and the weight decay that the flags ask for.

#include <cstdint>

#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// `config` is resolved. What flags give in iterations is counted by the batches of these
// iterations, as Megatron counts samples. The schedules begin after `consumed_samples`.
ParameterSchedule parameter_schedule(const TrainConfig& config, std::int64_t consumed_samples = 0);

}  // namespace phalanx
