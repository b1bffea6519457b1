#pragma once
// --use-checkpoint-args.

#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Where --use-checkpoint-args is given: what the checkpoint of --load says of its model, its
// tokenizer and the tokenizer's files that it keeps become the defaults of flags that are not
// given; nothing of its tokenizer does where --tokenizer-type names another. Where there is no
// checkpoint yet the call must say it all: InputMissingError where it does not.
void use_checkpoint_arguments(FlagSet& flags, const TrainConfig& config);

}  // namespace phalanx
