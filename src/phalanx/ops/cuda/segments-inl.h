#pragma once
// Kernels over the segments of flat buffers: a block of threads has the elements of one block of
// the grid in one segment.

#include "phalanx/cuda/simt.h"
#include "phalanx/ops/segment.h"

namespace phalanx::cuda {

struct SegmentRows {
  const ops::Segment* rows;
  std::int64_t count;
  std::int64_t first_block;  // of the first row
  std::int64_t first;        // the operands' first element
};

// What a block of threads has. Elements are counted from the operands' first.
struct SegmentBlock {
  std::int64_t group;
  std::int64_t number;  // of the block in its segment
  std::int64_t grid;    // where the block of the grid begins
  std::int64_t low;     // the segment's elements in it are [low, high)
  std::int64_t high;
};
PHALANX_DEVICE SegmentBlock segment_block(Thread& t, const SegmentRows& table) {
  const std::int64_t block = t.block() + table.first_block;
  // The last row whose first block is not behind it.
  std::int64_t row = 0;
  std::int64_t last = table.count - 1;
  while (row < last) {
    const std::int64_t middle = (row + last + 1) / 2;
    if (table.rows[middle].first_block <= block) {
      row = middle;
    } else {
      last = middle - 1;
    }
  }
  const ops::Segment segment = table.rows[row];
  const std::int64_t number = block - segment.first_block;
  const std::int64_t begin = segment.begin - table.first;
  const std::int64_t end = begin + segment.count;
  const std::int64_t grid = begin - segment.begin % ops::kSumBlock + number * ops::kSumBlock;
  return {segment.group, number, grid, begin > grid ? begin : grid,
          end < grid + ops::kSumBlock ? end : grid + ops::kSumBlock};
}

// Four neighbouring elements of the grid, of which the segment has [low, high).
struct Four {
  std::int64_t i;
  int low;
  int high;
  PHALANX_DEVICE bool whole() const { return low == 0 && high == 4; }
  PHALANX_DEVICE bool has(int e) const { return e >= low && e < high; }
};

// use(Four) for the fours of this thread, of 256, in their order.
template <typename Use>
PHALANX_DEVICE void for_fours(Thread& t, const SegmentBlock& block, const Use& use) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t i = block.grid + 4 * (t.index() + std::int64_t{j} * 256);
    if (i < block.high && i + 4 > block.low) {
      use(Four{i, block.low > i ? static_cast<int>(block.low - i) : 0,
               block.high < i + 4 ? static_cast<int>(block.high - i) : 4});
    }
  }
}

}  // namespace phalanx::cuda
