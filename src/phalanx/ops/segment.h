#pragma once
// A range of flat buffers, as tables of segments and the kernels that read them have it. Kernels of
// devices include this, so it knows nothing else.

#include <cstdint>

namespace phalanx::ops {

// Sums over a range of a flat buffer are taken block by block, on a grid of the buffer: however the
// buffer is cut at multiples of this many elements, the blocks of one parameter have the same sums.
inline constexpr std::int64_t kSumBlock = 4096;

// The blocks that `n` elements touch when the first is `lead` elements into its block.
constexpr std::int64_t sum_blocks(std::int64_t lead, std::int64_t n) {
  return (lead + n + kSumBlock - 1) / kSumBlock;
}

struct Segment {
  std::int64_t begin = 0;        // of its elements
  std::int64_t count = 0;        // at least 1
  std::int64_t first_block = 0;  // blocks of the segments in front of it in the table
  // What the op does with it. An update: the row of its settings. A sum: the number of its first
  // result.
  std::int64_t group = 0;
};

}  // namespace phalanx::ops
