#pragma once
// From settings as they are given to settings that a run can be built from.

#include "phalanx/settings/train_config.h"

namespace phalanx {

// Derives what was left open and refuses what is missing, out of range or contradictory:
// ConfigError naming the flags. `for_training` also asks for what only a run needs (learning
// rate, data, length).
void resolve(TrainConfig& config, bool for_training);

}  // namespace phalanx
