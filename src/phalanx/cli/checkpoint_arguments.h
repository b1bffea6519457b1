#pragma once
// --use-checkpoint-args.

#include "phalanx/flags/flag_set.h"
#include "phalanx/train/config.h"

namespace phalanx {

// What the checkpoint of --load says of its model becomes the default of flags that are not given;
// nothing where --use-checkpoint-args is not given or there is no checkpoint yet.
void use_checkpoint_arguments(FlagSet& flags, const RunConfig& run);

}  // namespace phalanx
