#pragma once
// Who still reads states that an update is about to change: a save that goes on while training
// goes on.

#include "phalanx/data_parallel/tile_file.h"

namespace phalanx {

// The elements of one tile, as they are before an update. A tensor is empty if they lie in memory,
// where the stores know them, or if the update does not read them.
struct TileElements {
  Tensor main;      // of the main parameters
  Tensor weight;    // of the weights
  Tensors moments;  // of the rule's states, in their order
};

class TileFence {
 public:
  virtual ~TileFence() = default;
  // Called by the rank's thread before the update of each tile of its shard, in their order. The
  // elements may change as soon as it returns.
  virtual void before_update(Context& context, int tile, const TileElements& elements) = 0;
};

}  // namespace phalanx
