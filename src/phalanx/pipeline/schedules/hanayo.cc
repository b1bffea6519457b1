// Hanayo: w waves, 2 w chunks on every rank, so that a microbatch goes down the ranks and up again
// w times and turns without a message. Its order is that of its runtime: here of the list
// scheduler, by the best of four rules of choice (smallest makespan, then smallest peak, then the
// first).

#include <tuple>

#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/list_scheduler.h"

namespace phalanx {

ActionLists hanayo_passes(const ScheduleRequest& request, const Placement& placement) {
  ListSchedule best;
  for (const auto prefer : {ListRule::Prefer::kAlternate, ListRule::Prefer::kBackward}) {
    for (const auto backward_order :
         {ListRule::BackwardOrder::kLowestMicrobatch, ListRule::BackwardOrder::kDeepestStage}) {
      ListSchedule next = list_schedule(placement, request.microbatches,
                                        {.prefer = prefer, .backward_order = backward_order});
      if (best.ranks.empty() ||
          std::tie(next.makespan, next.peak) < std::tie(best.makespan, best.peak)) {
        best = std::move(next);
      }
    }
  }
  return best.ranks;
}

}  // namespace phalanx
