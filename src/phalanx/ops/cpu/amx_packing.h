#pragma once
// Copies of bf16 operands in the layout of AMX's registers (amx_tiles.h). Padding is zero.

#include <cstddef>
#include <cstdint>

#include "phalanx/ops/cpu/panel_packing.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

// A piece of an operand: `lines` lines from `from` on, `depth` elements deep, padded to `steps`.
struct TilePacking {
  Lines from;
  std::int64_t lines = 0, depth = 0;
  std::int64_t steps = 0;
  std::byte* to = nullptr;
};

// The right operand, [32 columns][half][step][16 pairs][16 columns]: two halves of a panel.
void pack_tile_panels(Target target, const TilePacking& packing);
// The left operand, [32 rows][step][half][16 rows][32]. Its lines are neighbours in memory.
void pack_tile_strips(Target target, const TilePacking& packing);
// At most 32 rows that are contiguous in depth, [32 rows][steps * 32].
void copy_tile_rows(const TilePacking& packing);

}  // namespace phalanx::cpu
