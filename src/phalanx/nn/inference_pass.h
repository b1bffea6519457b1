#pragma once
// What generation and scoring ask of the units of a model beside a forward pass.

#include <vector>

#include "phalanx/nn/pass.h"

namespace phalanx::nn {

// Keys and values of earlier positions. One entry per layer of the chunk.
struct KeyValueCache {
  std::vector<Tensor> keys, values;  // each [capacity, b, groups, d]
  RowCoordinates rows;               // [capacity, b]; filled by the owner
  std::int64_t length = 0;           // positions cached before this pass
};

struct InferencePass {
  Pass& pass;                      // not training
  KeyValueCache* cache = nullptr;  // the pass continues what is in it, and adds itself
  // What the head leaves, of one sequence at a time. With logits alone nothing else is computed.
  Tensor logits = {};      // [1, V] f32, of the last position
  Tensor row_losses = {};  // [s*b] f32, the loss of every row
};

}  // namespace phalanx::nn
