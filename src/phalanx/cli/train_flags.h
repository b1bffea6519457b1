#pragma once
// Megatron's flags, bound to the training configuration: one place for name, meaning and default.

#include "phalanx/cli/flags.h"
#include "phalanx/train/config.h"

namespace phalanx {

// The flags that `pretrain gpt` and `plan gpt` share. Each adds its own for the size of the world.
void add_train_flags(Flags& flags, TrainConfig& config);

}  // namespace phalanx
