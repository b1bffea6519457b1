#pragma once
// One rank alone: every microbatch goes forward and backward before the next begins, then gradients
// are reduced and the optimizer steps. Evaluation is the same with the forward passes alone.

#include "phalanx/pipeline/action.h"

namespace phalanx {

Program no_pipelining(int microbatches);
Program forward_only(int microbatches);

}  // namespace phalanx
