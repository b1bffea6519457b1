#pragma once
// The skeleton that most schedules share. A rank first does some forward passes (the warmup), then
// one forward and one backward pass in turn, then the backward passes that are left. What differs
// between them is the warmup, the order of chunks, and where weight gradients go.

#include <span>
#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

struct ChunkAndMicrobatch {
  int chunk = 0;
  int microbatch = 0;
};

// Microbatches 0, 1, ... of chunk 0.
std::vector<ChunkAndMicrobatch> in_order(int microbatches);

// A warmup longer than the list of forward passes is all of them.
std::vector<Action> warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                 std::span<const ChunkAndMicrobatch> backward, int warmup);

// The same with split backward passes: behind the k-th input gradient comes the weight gradient of
// the one `delay` before it, and at the end those that are left.
std::vector<Action> split_warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                       std::span<const ChunkAndMicrobatch> backward, int warmup,
                                       int delay);

}  // namespace phalanx
