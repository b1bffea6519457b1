#pragma once
// --deepspeed-config FILE: a DeepSpeed file (ds_config.json) that is read as flags. What the file
// leaves out has Phalanx's default, not DeepSpeed's; docs/deepspeed.md has the table.

#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// `flags` has the training flags, bound to `config`, which must outlive it.
void add_deepspeed_config(FlagSet& flags, const TrainConfig& config);

}  // namespace phalanx
