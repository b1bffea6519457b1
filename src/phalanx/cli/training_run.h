#pragma once
// A process that trains: shared by `pretrain` and `finetune`.

#include <optional>

#include "phalanx/flags/flag_set.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// To be called before flags are read: finds out who started this process, which decides what ranks
// there are.
std::optional<LaunchEnvironment> begin_process(TrainConfig& config);

// Adds --nproc and flags that name files of flags, as the last flags.
void add_start_flags(FlagSet& flags, TrainConfig& config);

// Trains by the flags that were read, and returns the exit status.
int run_training(const std::optional<LaunchEnvironment>& environment, const FlagSet& flags,
                 TrainConfig& config);

}  // namespace phalanx
