#pragma once
// Which rank reads what of a checkpoint, and whom it sends it to: each stored byte is read once in
// the world. Pure functions of the checkpoint's files and of what the ranks need, so that all ranks
// make the same plan.
//
// A unit - a block of a part, a whole tensor of a safetensors file - is read by the rank that needs
// most of it. Of ranks that need the same, it is the one that has the least to read so far. So a
// rank that resumes in the layout of the save reads what it wrote.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phalanx/checkpoint/stored_tensors.h"

namespace phalanx {

// A part of a parameter that a rank keeps; it needs the same part of each of its states.
struct NeededBox {
  int parameter = 0;  // by number in the whole model
  MatrixBox box;
};

// A part of one of a chunk's pieces.
struct ChunkCut {
  std::size_t piece = 0;
  MatrixBox box;
};

struct LoadPlan {
  // What ranks that need the same get of a chunk: the cuts one behind the other, each row-major.
  struct Share {
    std::vector<int> ranks;  // the reader may be one of them
    std::vector<ChunkCut> cuts;
    std::int64_t bytes = 0;
  };
  struct Read {
    const StoredChunk* chunk = nullptr;
    std::vector<Share> shares;
  };
  struct Receipt {
    int from = 0;
    const StoredChunk* chunk = nullptr;
    std::vector<ChunkCut> cuts;
    std::int64_t bytes = 0;
  };
  // In a round each rank reads at most one chunk, sends what others need of it, and receives what
  // it needs of theirs.
  std::vector<Read> reads;                     // by round; may be fewer
  std::vector<std::vector<Receipt>> receipts;  // by round, by reader
  std::int64_t largest_chunk = 0;              // bytes of what this rank reads at once,
  std::int64_t largest_sent = 0;               // of all that goes to other ranks in a round,
  std::int64_t largest_received = 0;           // and of a message to it
};

// The plan of `rank`. `needs`: by rank, of all ranks. `units` must outlive it. `parameter_of`: the
// number of an entry's parameter.
LoadPlan load_plan(std::span<const StoredUnit> units,
                   const std::function<int(const Manifest::Entry&)>& parameter_of,
                   std::span<const std::vector<NeededBox>> needs, int rank);

}  // namespace phalanx
