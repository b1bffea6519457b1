// Interleaved schedules: v chunks on every rank of a looped pipeline. Microbatches come in groups
// of g: the first group through chunk 0, then through chunk 1, ..., then the second group; backward
// passes take the same groups through the chunks from the last to the first. All ranks have the
// same order. Rank r of p does forward passes ahead until the first group has come through all
// chunks above its last one and the first gradient is back:
//   interleaved     2 (p - 1 - r) + (v - 1) g; then 1F1B (Megatron's virtual pipeline);
//   zb-interleaved  (p - 1 - r) + (v - 1) g, and weight gradients r passes behind (ZB-1p).

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"
#include "phalanx/pipeline/schedules/warmup_order.h"

namespace phalanx {
namespace {

struct InterleavedOrder {
  std::vector<ChunkAndMicrobatch> forward;
  std::vector<ChunkAndMicrobatch> backward;
  int largest_group = 1;
};

// Groups of request.group_size, the last one short where it has to be. 0: as many groups of at
// least `ranks` microbatches as there can be, of equal size or one apart; fewer microbatches than
// ranks are one group.
std::vector<int> group_sizes(const ScheduleRequest& request) {
  const int microbatches = request.microbatches;
  if (request.group_size < 0) {
    throw ConfigError("a group of {} microbatches: it must have at least 1 (0: chosen for you)",
                      request.group_size);
  }
  std::vector<int> sizes;
  if (request.group_size > 0) {
    for (int i = 0; i < microbatches; i += request.group_size) {
      sizes.push_back(std::min(request.group_size, microbatches - i));
    }
    return sizes;
  }
  const int groups = std::max(1, microbatches / request.ranks);
  const int larger = microbatches % groups;
  for (int g = 0; g < groups; ++g) sizes.push_back(microbatches / groups + (g < larger ? 1 : 0));
  return sizes;
}

InterleavedOrder interleaved_order(const ScheduleRequest& request, int chunks) {
  const std::vector<int> sizes = group_sizes(request);
  InterleavedOrder order;
  order.largest_group = *std::max_element(sizes.begin(), sizes.end());
  const auto passes =
      static_cast<std::size_t>(request.microbatches) * static_cast<std::size_t>(chunks);
  order.forward.reserve(passes);
  order.backward.reserve(passes);
  int first = 0;
  for (const int size : sizes) {
    for (int c = 0; c < chunks; ++c) {
      for (int i = first; i < first + size; ++i) {
        order.forward.push_back({.chunk = c, .microbatch = i});
        order.backward.push_back({.chunk = chunks - 1 - c, .microbatch = i});
      }
    }
    first += size;
  }
  return order;
}

}  // namespace

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
