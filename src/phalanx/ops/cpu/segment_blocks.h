#pragma once
// Work on a table of segments, in tasks of some blocks of the grid.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/segments.h"

namespace phalanx::cpu {

// The elements of a segment's blocks [first, last).
struct ElementRange {
  std::int64_t begin = 0, end = 0;
};
inline ElementRange elements_of_blocks(const ops::Segment& segment, std::int64_t first,
                                       std::int64_t last) {
  const std::int64_t grid = segment.begin - segment.begin % ops::kSumBlock;
  return {std::max(segment.begin, grid + first * ops::kSumBlock),
          std::min(segment.begin + segment.count, grid + last * ops::kSumBlock)};
}

// The blocks of a table as tasks.
inline Blocks segment_tasks(const ops::SegmentTable& table) {
  return {table.blocks(), kTaskElements / ops::kSumBlock};
}

// Calls body(segment, first, last) for every segment with blocks in a task: its blocks [first,
// last) are.
template <typename Body>
void for_each_segment(const ops::SegmentTable& table, const Blocks& tasks, std::int64_t task,
                      const Body& body) {
  const std::int64_t offset = table.host.front().first_block;
  const std::int64_t begin = offset + tasks.begin(task);
  const std::int64_t end = offset + tasks.end(task);
  const auto behind = std::ranges::upper_bound(table.host, begin, {}, &ops::Segment::first_block);
  for (auto row = std::prev(behind); row != table.host.end() && row->first_block < end; ++row) {
    body(*row, std::max<std::int64_t>(0, begin - row->first_block),
         std::min(ops::blocks_of(*row), end - row->first_block));
  }
}

}  // namespace phalanx::cpu
