#pragma once
// What the parts of a checkpoint hold: of this rank, and of all ranks together.

#include <span>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/part_writer.h"
#include "phalanx/rank/saved_tiles.h"

namespace phalanx {

// The pieces of this rank, in the order of its tiles.
std::vector<PartWriter::Piece> part_pieces(const Rank& rank, std::span<const SavedTile> tiles);

// All tensors of the run, for the manifest. Weights that are rounded from main parameters are not
// stored.
std::vector<Manifest::Entry> tensors_in_parts(const Rank& rank, SavedContent content);
// Of those that are stored.
std::int64_t stored_bytes(std::span<const Manifest::Entry> tensors);

}  // namespace phalanx
