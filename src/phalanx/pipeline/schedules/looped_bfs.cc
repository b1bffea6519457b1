// Breadth first over a looped pipeline: all microbatches forward through chunk 0, then through
// chunk 1, ...; all of them backward through the last chunk, ..., through chunk 0. A chunk's
// weights are needed twice in a step, and its gradients are complete early.

#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {

ActionLists looped_bfs_passes(const ScheduleRequest& request, const Placement& placement) {
  const int chunks = placement.chunks();
  std::vector<Action> order;
  order.reserve(2 * static_cast<std::size_t>(chunks) *
                static_cast<std::size_t>(request.microbatches));
  for (int c = 0; c < chunks; ++c) {
    for (int i = 0; i < request.microbatches; ++i) {
      order.push_back(pass(ActionKind::kForward, c, i));
    }
  }
  for (int c = chunks - 1; c >= 0; --c) {
    for (int i = 0; i < request.microbatches; ++i) {
      order.push_back(pass(ActionKind::kBackward, c, i));
    }
  }
  return {static_cast<std::size_t>(request.ranks), order};
}

}  // namespace phalanx
