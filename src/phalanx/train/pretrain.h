#pragma once
// A training run from its configuration to its end.

#include <chrono>
#include <functional>
#include <memory>

#include "phalanx/metrics/run_sink.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/start/rank_runner.h"
#include "phalanx/train/run_end.h"

namespace phalanx {

using MakeRankRunner = std::function<std::unique_ptr<RankRunner>()>;

// Trains a model of any family as the (unresolved) configuration says, on those ranks of the runner
// that belong to this process. The first rank tells the sinks.
RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                const MakeRankRunner& make_runner);
// All ranks as threads of this process; without `sinks` the default ones.
RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks);
RunEnd pretrain(const TrainConfig& config, const StopToken& stop = nullptr);

// --distributed-timeout-minutes.
std::chrono::milliseconds timeout_of(const RunConfig& run);

}  // namespace phalanx
