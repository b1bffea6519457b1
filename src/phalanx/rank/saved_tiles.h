#pragma once
// What a rank writes to a checkpoint where every rank writes its own part: tile by tile, in the
// order in which updates come.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/data_parallel/pieces.h"
#include "phalanx/rank/rank.h"

namespace phalanx {

// Elements of one parameter or of one of its states.
struct SavedRange {
  enum class Column : std::uint8_t { kWeight, kMoment, kMain };
  Column column = Column::kWeight;
  std::size_t moment = 0;       // of kMoment: its number among Optimizer::state_names()
  Segment segment;              // of the shard
  std::vector<ParamBox> boxes;  // what exists of it in the global tensor
  Tensor local;                 // the segment's elements; only type and shape if they lie in a file
  bool in_file = false;

  std::int64_t bytes() const { return local.count() * size_of(local.dtype); }  // padding included
};

struct SavedTile {
  int tile = 0;  // of the shard; a weight that is not trained has a number behind these
  std::vector<SavedRange> ranges;  // never empty

  std::int64_t bytes() const;
  bool in_file() const;  // any of it
};

// What a checkpoint has besides the trained weights.
struct SavedContent {
  bool with_optimizer = true;  // its states, and the main parameters
  bool with_frozen = true;     // the weights that are not trained; else a base has them
};

// Whether trained weights are saved: not where main parameters are, from which they are rounded.
bool saves_weights(const Rank& rank, bool with_optimizer);

// The rank must outlive them.
std::vector<SavedTile> saved_tiles(const Rank& rank, SavedContent content);

// The most that the tiles of any rank at this rank's place in the model have, padding included.
std::int64_t most_saved_bytes(const Rank& rank, SavedContent content);

}  // namespace phalanx
