// Backward first, without looking ahead: an idle rank of a looped pipeline runs a backward pass if
// one is ready, the deepest stage first, else a forward pass. It shows what interleaved schedules
// gain by waiting.

#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/list_scheduler.h"

namespace phalanx {

ActionLists backward_first_passes(const ScheduleRequest& request, const Placement& placement) {
  return list_schedule(placement, request.microbatches,
                       {.prefer = ListRule::Prefer::kBackward,
                        .backward_order = ListRule::BackwardOrder::kDeepestStage})
      .ranks;
}

}  // namespace phalanx
