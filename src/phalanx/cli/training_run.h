#pragma once
// A process that trains: shared by `pretrain` and `finetune`.

#include <memory>
#include <optional>

#include "phalanx/cli/command_io.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/start/rank_runner.h"
#include "phalanx/train/run_end.h"

namespace phalanx {

// To be called before flags are read: finds out who started this process, which decides what ranks
// there are. A process that is not the command's own has no launcher: its ranks are threads.
std::optional<LaunchEnvironment> begin_process(CommandIo& io, TrainConfig& config);

// Adds the flags of training, but for those whose names the command has given another meaning.
void add_other_train_flags(FlagSet& flags, TrainConfig& config);

// Adds --nproc and flags that name files of flags, as the last flags.
void add_start_flags(FlagSet& flags, TrainConfig& config);

// The ranks that the flags and the launcher say: threads of this process, or this process as one of
// many, which has joined the others when this returns; StoppedEarly where `stop` asks meanwhile.
// UsageError where --nproc is given to one of several processes.
std::unique_ptr<RankRunner> start_ranks(const std::optional<LaunchEnvironment>& environment,
                                        const FlagSet& flags, const TrainConfig& config,
                                        const StopRequests& stop);

// Trains by the flags that were read, and returns the exit status.
int run_training(CommandIo& io, const std::optional<LaunchEnvironment>& environment,
                 const FlagSet& flags, TrainConfig& config);

// The same in a process of somebody else, whose signals and terminal are left alone: all ranks are
// threads of it. `listener` is told what the run does, besides the usual sinks; null: nobody.
// ConfigError for flags that need a process of their own.
RunEnd train_on_threads(const FlagSet& flags, TrainConfig& config, const StopToken& stop,
                        std::unique_ptr<RunSink> listener);

}  // namespace phalanx
