// Interleaved schedules: v chunks on every rank of a looped pipeline, taken in the order of
// interleaved_order.h with groups of g microbatches. Rank r of p does forward passes ahead until
// the first group has come through all chunks above its last one and the first gradient is back:
//   interleaved     2 (p - 1 - r) + (v - 1) g; then 1F1B (Megatron's virtual pipeline);
//   zb-interleaved  (p - 1 - r) + (v - 1) g, and weight gradients r passes behind (ZB-1p).

#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/interleaved_order.h"

namespace phalanx {

ActionLists interleaved_passes(const ScheduleRequest& request, const Placement& placement) {
  const InterleavedOrder order = interleaved_order(request, placement.chunks());
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) {
    const int warmup = 2 * (request.ranks - 1 - r) + (placement.chunks() - 1) * order.largest_group;
    ranks.push_back(warmup_order(order.forward, order.backward, warmup));
  }
  return ranks;
}

ActionLists interleaved_zero_bubble_passes(const ScheduleRequest& request,
                                           const Placement& placement) {
  const InterleavedOrder order = interleaved_order(request, placement.chunks());
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) {
    const int warmup = request.ranks - 1 - r + (placement.chunks() - 1) * order.largest_group;
    ranks.push_back(split_warmup_order(order.forward, order.backward, warmup, r));
  }
  return ranks;
}

}  // namespace phalanx
