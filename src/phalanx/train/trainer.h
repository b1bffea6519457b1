#pragma once
// The training loop: step, count, log, evaluate, save, leave.

#include <chrono>
#include <functional>
#include <memory>

#include "phalanx/train/config.h"
#include "phalanx/train/launcher.h"
#include "phalanx/train/signals.h"

namespace phalanx {

enum class RunEnd {
  kFinished,   // all iterations are done, or an exit condition was met
  kPreempted,  // a signal came: the state is saved
  kStopped,    // a signal came, and there is no --save
};

// Trains GPT as the (unresolved) configuration says: the ranks of the launcher that are this
// process's.
using MakeLauncher = std::function<std::unique_ptr<Launcher>()>;
RunEnd pretrain_gpt(const TrainConfig& config, const StopSignals& signals,
                    const MakeLauncher& make_launcher);
// All ranks as threads of this process.
RunEnd pretrain_gpt(const TrainConfig& config);

// --distributed-timeout-minutes.
std::chrono::milliseconds timeout_of(const RunConfig& run);

}  // namespace phalanx
