#pragma once
// The form of most schedules: a rank first does some forward passes (the warmup), then one forward
// and one backward pass in turn, then the remaining backward passes. They differ in the warmup, the
// order of chunks, and the places of weight gradients.

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

// A warmup that is longer than the list of forward passes means all of them.
std::vector<Action> warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                 std::span<const ChunkAndMicrobatch> backward, int warmup);

// The same with split backward passes: after the k-th input gradient comes the weight gradient of
// number k - delay, and at the end the remaining ones.
std::vector<Action> split_warmup_order(std::span<const ChunkAndMicrobatch> forward,
                                       std::span<const ChunkAndMicrobatch> backward, int warmup,
                                       int delay);

}  // namespace phalanx
