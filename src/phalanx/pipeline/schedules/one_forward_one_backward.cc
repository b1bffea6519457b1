// One chunk on every rank, microbatches in order, backward passes fused. The schedules differ in
// how many forward passes a rank r of p does before its first backward pass:
//   naive   none: one microbatch is in flight at a time;
//   GPipe   all m;
//   1F1B    p - 1 - r, as many as it takes for the first gradient to come back: no rank holds more
//           than p activations. On one rank this is F0 B0 F1 B1 ...: no pipelining;
//   eager   2 (p - 1 - r): activations are there a pass earlier, so that messages hide.

#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/warmup_order.h"

namespace phalanx {
namespace {

template <typename Warmup>
ActionLists with_warmup(const ScheduleRequest& request, const Warmup& warmup_of) {
  const std::vector<ChunkAndMicrobatch> order = in_order(request.microbatches);
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) ranks.push_back(warmup_order(order, order, warmup_of(r)));
  return ranks;
}

}  // namespace

ActionLists naive_passes(const ScheduleRequest& request, const Placement&) {
  return with_warmup(request, [](int) { return 0; });
}

ActionLists gpipe_passes(const ScheduleRequest& request, const Placement&) {
  return with_warmup(request, [&](int) { return request.microbatches; });
}

ActionLists one_forward_one_backward_passes(const ScheduleRequest& request, const Placement&) {
  return with_warmup(request, [&](int rank) { return request.ranks - 1 - rank; });
}

ActionLists eager_passes(const ScheduleRequest& request, const Placement&) {
  return with_warmup(request, [&](int rank) { return 2 * (request.ranks - 1 - rank); });
}

}  // namespace phalanx
