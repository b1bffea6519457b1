#pragma once
// The training loop: step, count, log, evaluate, save, leave.

#include "phalanx/train/config.h"

namespace phalanx {

enum class RunEnd {
  kFinished,   // all iterations are done, or an exit condition was met
  kPreempted,  // a signal came: the state is saved
  kStopped,    // a signal came, and there is no --save
};

// Trains GPT as the (unresolved) configuration says.
RunEnd pretrain_gpt(TrainConfig config);

}  // namespace phalanx
