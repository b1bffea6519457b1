// Zero bubble, one chunk on every rank (ZB-H1, ZB-H2): backward passes are split, and weight
// gradients, for which no pass waits, fill the bubbles. Rank r of p does some forward passes ahead;
// its weight gradients lag behind its input gradients, so that all ranks hold equally much:
//   H1  p - 1 - r ahead as in 1F1B, lag r: p activations as 1F1B's first rank, a third of the
//   bubble; H2  2 (p - 1 - r) ahead, lag 2 r: twice as many, no bubble but the skew of the ranks;
//   and all between, with up to `ahead` more passes ahead and behind than H1.

#include <algorithm>

#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/warmup_order.h"

namespace phalanx {

ActionLists zero_bubble_passes(const ScheduleRequest& request, int ahead) {
  const std::vector<ChunkAndMicrobatch> order = in_order(request.microbatches);
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) {
    const int below = request.ranks - 1 - r;
    ranks.push_back(
        split_warmup_order(order, order, below + std::min(ahead, below), r + std::min(ahead, r)));
  }
  return ranks;
}

ActionLists zero_bubble_h1_passes(const ScheduleRequest& request, const Placement&) {
  return zero_bubble_passes(request, 0);
}

ActionLists zero_bubble_h2_passes(const ScheduleRequest& request, const Placement&) {
  return zero_bubble_passes(request, request.ranks - 1);
}

}  // namespace phalanx
