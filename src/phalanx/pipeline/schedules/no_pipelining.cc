#include "phalanx/pipeline/schedules/no_pipelining.h"

#include "phalanx/pipeline/lowering.h"

namespace phalanx {

Program no_pipelining(int microbatches) {
  return lower(make_schedule("1f1b", {.ranks = 1, .microbatches = microbatches})).front();
}

Program forward_only(int microbatches) {
  return lower(forward_only_schedule(Placement::contiguous(1), microbatches)).front();
}

}  // namespace phalanx
