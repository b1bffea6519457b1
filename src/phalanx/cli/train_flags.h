#pragma once
// Megatron's flags, bound to the training configuration: one place for name, meaning and default.

#include "phalanx/cli/flags.h"
#include "phalanx/train/config.h"

namespace phalanx {

// All flags of `pretrain gpt`; `plan gpt` takes the same.
void add_train_flags(Flags& flags, TrainConfig& config);

}  // namespace phalanx
