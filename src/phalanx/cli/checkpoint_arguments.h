#pragma once
// --use-checkpoint-args.

#include <map>
#include <optional>
#include <string>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// With --use-checkpoint-args, flags that are not given take the values of the checkpoint of --load:
// those of the model, and, unless --tokenizer-type names another tokenizer, those of its tokenizer
// and the tokenizer's files that it keeps. If there is no checkpoint yet, the call must give all of
// them: else InputMissingError.
void use_checkpoint_arguments(FlagSet& flags, const TrainConfig& config);

// The checkpoint that such a run begins with, unverified; nothing if there is none yet.
std::optional<CheckpointReader> checkpoint_of_model(const RunConfig& run);

// The part of it that is about the model: `arguments` are flags and their values, by name.
void use_model_arguments(FlagSet& flags, const std::map<std::string, std::string>& arguments);

}  // namespace phalanx
