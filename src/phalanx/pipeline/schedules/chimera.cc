// Chimera with two pipelines: the model exists twice, and microbatches go through one copy down the
// ranks and through the other up, in turn. If forward and backward passes took one slot of time
// each, microbatch j of either direction, the i-th of the u-th unit of p / 2, would be
//   forward at stage s in slot 2 p u + 2 i + s, backward in slot 2 p u + 2 i + 2 p - 1 - s;
// with an even number of ranks p no two passes of a rank share a slot. A rank's order is that of
// its slots, whatever passes take. Units follow each other directly; the last one may be partial.

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {
namespace {

struct SlotAndPass {
  int slot;
  Action action;
};

std::vector<Action> order_of(int rank, const ScheduleRequest& request, const Placement& placement) {
  const int ranks = request.ranks;
  std::vector<SlotAndPass> slots;
  slots.reserve(2 * static_cast<std::size_t>(request.microbatches));
  for (const int direction : {0, 1}) {
    const int stage = placement.stage(rank, direction);
    const int microbatches = (request.microbatches + 1 - direction) / 2;
    for (int j = 0; j < microbatches; ++j) {
      const int entry = 2 * ranks * (j / (ranks / 2)) + 2 * (j % (ranks / 2));
      slots.push_back({entry + stage, pass(ActionKind::kForward, direction, j)});
      slots.push_back({entry + 2 * ranks - 1 - stage, pass(ActionKind::kBackward, direction, j)});
    }
  }
  std::sort(slots.begin(), slots.end(),
            [](const SlotAndPass& a, const SlotAndPass& b) { return a.slot < b.slot; });
  std::vector<Action> order;
  order.reserve(slots.size());
  for (const SlotAndPass& slot : slots) order.push_back(slot.action);
  return order;
}

}  // namespace

ActionLists chimera_passes(const ScheduleRequest& request, const Placement& placement) {
  if (request.ranks % 2 != 0 || request.microbatches < 2) {
    throw ConfigError(
        "chimera: needs an even number of ranks, and at least one microbatch for either direction; "
        "{} ranks and {} microbatches were asked for",
        request.ranks, request.microbatches);
  }
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) ranks.push_back(order_of(r, request, placement));
  return ranks;
}

}  // namespace phalanx
