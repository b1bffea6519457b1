#pragma once
// What the units of a model are given for generation and scoring: a forward pass, key/value caches
// and where results go.

#include <span>
#include <vector>

#include "phalanx/nn/pass.h"

namespace phalanx::nn {

// Keys and values of earlier positions of one sequence. One entry per layer of the chunk.
struct KeyValueCache {
  std::vector<Tensor> keys, values;  // each [capacity, 1, groups, d]
  RowCoordinates rows;               // [capacity, 1]; filled by the owner
  std::int64_t length = 0;           // positions cached before this pass
};

struct InferencePass {
  Pass& pass;  // not training
  // One for each sample of the batch, or none. The pass continues the sequences in them and appends
  // its own keys and values. A sample's results do not depend on the other samples.
  std::span<KeyValueCache* const> caches = {};
  // What the head computes; with `logits` alone, only these.
  Tensor logits = {};      // [b, V] f32, of the last position, whole on every rank
  Tensor row_losses = {};  // [s*b] f32, the loss of every row
};

}  // namespace phalanx::nn
