#pragma once
// Ops that work on all parameters at once take flat buffers and a table of the segments in them.
// The table is made and uploaded once. An element outside of all segments stays as it is.

#include <span>
#include <string_view>

#include "phalanx/ops/rows.h"
#include "phalanx/ops/segment.h"

namespace phalanx::ops {

// The same rows for the host and for the device.
struct SegmentTable {
  std::span<const Segment> host;  // must outlive the table
  Tensor device;                  // [rows, 4], i64

  // Rows [first, first + count).
  SegmentTable slice(std::int64_t first, std::int64_t count) const;
  std::int64_t elements() const;
  std::int64_t blocks() const;  // of kSumBlock elements that the segments touch
};

// The blocks of the grid that a segment touches.
constexpr std::int64_t blocks_of(const Segment& segment) {
  return sum_blocks(segment.begin % kSumBlock, segment.count);
}

// Fills in every segment's first_block.
inline void number_blocks(std::span<Segment> segments) {
  std::int64_t blocks = 0;
  for (Segment& segment : segments) {
    segment.first_block = blocks;
    blocks += blocks_of(segment);
  }
}

// The memory of a table, uploaded by upload_segments().
Tensor allocate_segments(Arena& arena, std::size_t rows);
void upload_segments(Context& context, const SegmentTable& table);

// InternalError unless all segments lie in elements [first, first + n), blocks are numbered, and
// groups are below `groups`.
void expect_segments(std::string_view op, const SegmentTable& table, std::int64_t first,
                     std::int64_t n, std::int64_t groups);

}  // namespace phalanx::ops
