// Asynchronous schedules: the order of 1F1B over a stream that is never flushed, with weights that
// are stale. Both passes of microbatch k read the same version:
//   PipeDream      updates after every backward pass. Rank r of p has made k - (p - 1 - r) updates
//                  when the forward pass of k begins, and reads that version: p - r are alive;
//   PipeDream-2BW  adds up gradients over a microbatches, and reads the version before the newest:
//                  k / a - 1. Two are alive. With a < p the version read may not be there
//                  yet, so the verifier refuses that.
// Before the first update the version is 0.

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {

ActionLists pipedream_passes(const ScheduleRequest& request, const Placement& placement) {
  ActionLists ranks = one_forward_one_backward_passes(request, placement);
  for (int r = 0; r < request.ranks; ++r) {
    for (Action& action : ranks[static_cast<std::size_t>(r)]) {
      action.version = std::max(0, action.microbatch - (request.ranks - 1 - r));
    }
  }
  return ranks;
}

ActionLists double_buffered_passes(const ScheduleRequest& request, const Placement& placement) {
  const int batch =
      request.microbatches_per_update == 0 ? request.ranks : request.microbatches_per_update;
  if (batch < 1 || request.microbatches % batch != 0) {
    throw ConfigError(
        "pipedream-2bw: {} microbatches cannot be cut into updates of {}: the number of "
        "microbatches must be a multiple of those per update (one for each rank unless given)",
        request.microbatches, batch);
  }
  ActionLists ranks = one_forward_one_backward_passes(request, placement);
  for (std::vector<Action>& actions : ranks) {
    for (Action& action : actions) action.version = std::max(0, action.microbatch / batch - 1);
  }
  return ranks;
}

}  // namespace phalanx
