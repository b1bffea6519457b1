#pragma once
// Sums over the depth of neighbouring lines: the gradient of a bias. A product can compute them
// while it packs its left operand. Blocks of depth are summed in order, then their sums, so both
// ways give the same bits.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/panel_packing.h"

namespace phalanx::cpu {

struct LineSums {
  Lines from;  // neighbouring lines
  std::int64_t lines = 0, depth = 0;
  float* to = nullptr;
  bool accumulate = true;  // true: to += the sums; false: to = the sums
};

// Bytes of the sums of all blocks, f32[block][line].
std::int64_t line_sums_bytes(const LineSums& sums, std::int64_t depth_block);

// partial[block][line] = the sum of every block, for a part of the lines and depths.
void add_up_block(const Lines& from, std::int64_t lines, std::int64_t depth, float* partial);
// Adds up the sums of all blocks.
void combine_line_sums(int threads, const LineSums& sums, std::int64_t depth_block,
                       const std::byte* partial);
// Does both steps.
void add_up_lines(int threads, const LineSums& sums, std::int64_t depth_block, std::byte* partial);

}  // namespace phalanx::cpu
