// Evaluation in any placement: each rank takes the forward passes as they become ready, the deepest
// stage first, so that microbatches leave the pipeline as early as they can.

#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/schedules/list_scheduler.h"

namespace phalanx {

Schedule forward_only_schedule(const Placement& placement, int microbatches) {
  return {.kind = "forward-only",
          .placement = placement,
          .microbatches = microbatches,
          .forward_only = true,
          .update = UpdateRule::kFlush,
          .microbatches_per_update = microbatches,
          .ranks = list_schedule(placement, microbatches, {.forward_only = true}).ranks};
}

}  // namespace phalanx
