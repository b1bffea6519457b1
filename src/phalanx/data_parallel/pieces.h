#pragma once
// Which rank writes what to a checkpoint. Each rank writes tiles of its own shard. Of a parameter's
// states - moments, main parameter, weight - all are cut alike. The pieces of all ranks together
// are every parameter once, without padding.

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/state_layout.h"

namespace phalanx {

// Who writes what several ranks hold alike.
enum class Writers : std::uint8_t {
  kFirst,  // the first copy of the states: what it has needs no message to the first rank
  kAll,    // the copies take turns, tile by tile
};

struct Piece {
  Segment segment;              // of the shard
  std::vector<ParamBox> boxes;  // what exists of it in the global tensor; never empty
};

// The pieces of this rank's shard, in ParamId order, then by position.
std::vector<Piece> pieces(const StateLayout& states, Writers writers);

// Weights that are not trained, in ParamId order: of the ranks that have them, the first copy's
// first writes them.
std::vector<Piece> frozen_pieces(const StateLayout& states);

// With kFirst a weight that every rank has whole is not cut: the boxes that this rank writes of it.
std::vector<ParamBox> whole_weight_boxes(const StateLayout& states, ParamId id);

}  // namespace phalanx
