#include "phalanx/pipeline/schedules/warmup_order.h"

#include <algorithm>

namespace phalanx {
namespace {

Action pass_of(ActionKind kind, const ChunkAndMicrobatch& of) {
  return pass(kind, of.chunk, of.microbatch);
}

// Appends the forward passes, and calls add_backward(k) at the place of the k-th backward pass.
template <typename AddBackward>
void walk(std::span<const ChunkAndMicrobatch> forward, std::size_t backward_passes, int warmup,
          std::vector<Action>& order, const AddBackward& add_backward) {
  const std::size_t ahead = std::min(static_cast<std::size_t>(warmup), forward.size());
  for (std::size_t k = 0; k < ahead; ++k) {
    order.push_back(pass_of(ActionKind::kForward, forward[k]));
  }
  for (std::size_t k = 0; k < backward_passes; ++k) {
    if (ahead + k < forward.size()) {
      order.push_back(pass_of(ActionKind::kForward, forward[ahead + k]));
    }
    add_backward(k);
  }
}

}  // namespace

std::vector<ChunkAndMicrobatch> in_order(int microbatches) {
  std::vector<ChunkAndMicrobatch> order;
  order.reserve(static_cast<std::size_t>(microbatches));
  for (int i = 0; i < microbatches; ++i) order.push_back({.chunk = 0, .microbatch = i});
  return order;
}

std::vector<Action> warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                 std::span<const ChunkAndMicrobatch> backward, int warmup) {
  std::vector<Action> order;
  order.reserve(forward.size() + backward.size());
  walk(forward, backward.size(), warmup, order,
       [&](std::size_t k) { order.push_back(pass_of(ActionKind::kBackward, backward[k])); });
  return order;
}

std::vector<Action> split_warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                       std::span<const ChunkAndMicrobatch> backward, int warmup,
                                       int delay) {
  std::vector<Action> order;
  order.reserve(forward.size() + 2 * backward.size());
  const auto lag = static_cast<std::size_t>(delay);
  std::size_t weights = 0;
  walk(forward, backward.size(), warmup, order, [&](std::size_t k) {
    order.push_back(pass_of(ActionKind::kBackwardInput, backward[k]));
    if (k < lag) return;
    order.push_back(pass_of(ActionKind::kBackwardWeight, backward[weights]));
    ++weights;
  });
  for (; weights < backward.size(); ++weights) {
    order.push_back(pass_of(ActionKind::kBackwardWeight, backward[weights]));
  }
  return order;
}

}  // namespace phalanx
