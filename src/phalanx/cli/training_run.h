#pragma once
// A process that trains: what `pretrain` and `finetune` have in common around their flags.

#include <optional>

#include "phalanx/flags/flag_set.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Before the flags are read: who started this process, which says what ranks there are.
std::optional<LaunchEnvironment> begin_process(TrainConfig& config);

// --nproc and files of flags, for the end of the flags.
void add_start_flags(FlagSet& flags, TrainConfig& config);

// Trains as the read flags say and returns the exit status.
int run_training(const std::optional<LaunchEnvironment>& environment, const FlagSet& flags,
                 TrainConfig& config);

}  // namespace phalanx
