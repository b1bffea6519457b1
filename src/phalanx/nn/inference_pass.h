#pragma once
// The inputs of units in generation and scoring: a forward pass, key/value caches and the places of
// results.

#include <span>
#include <vector>

#include "phalanx/nn/pass.h"

namespace phalanx::nn {

// Keys and values of earlier positions of one sequence, by layer of the chunk.
struct KeyValueCache {
  std::vector<Tensor> keys, values;  // each [capacity, 1, groups, d]
  RowCoordinates rows;               // [capacity, 1]; filled by the owner
  std::int64_t length = 0;           // positions cached before this pass
};

struct InferencePass {
  Pass& pass;  // not training
  // One per sample of the batch, or none. The pass continues their sequences and appends its own
  // keys and values. A sample's results do not depend on other samples.
  std::span<KeyValueCache* const> caches = {};
  // Results of the head; if only `logits` is set, it computes only these.
  Tensor logits = {};      // [b, V] f32, of the last position, whole on every rank
  Tensor row_losses = {};  // [s*b] f32, the loss of every row
};

}  // namespace phalanx::nn
