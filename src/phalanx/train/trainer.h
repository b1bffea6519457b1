#pragma once
// The training loop: step, count, log, evaluate, save, leave.

#include <chrono>
#include <functional>
#include <memory>

#include "phalanx/metrics/run_sink.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {

enum class RunEnd {
  kFinished,   // all iterations are done, or an exit condition was met
  kPreempted,  // a signal came: the state is saved, or training had not begun
  kStopped,    // a signal came between steps, and there is no --save
};

// The number of the signal that asks the run to stop, or 0. Ranks ask between steps and between the
// microbatches of an evaluation; once it is not 0 it stays so.
using StopToken = std::function<int()>;
using MakeRankRunner = std::function<std::unique_ptr<RankRunner>()>;

// Trains a model of any family as the (unresolved) configuration says: the ranks of the runner
// that are this process's. The first rank tells the sinks.
RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                const MakeRankRunner& make_runner);
// All ranks as threads of this process; without `sinks` the default ones.
RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks);
RunEnd pretrain(const TrainConfig& config, const StopToken& stop = nullptr);

// --distributed-timeout-minutes.
std::chrono::milliseconds timeout_of(const RunConfig& run);

}  // namespace phalanx
