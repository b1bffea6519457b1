#include "phalanx/ops/segments.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

constexpr std::int64_t kNumbers = 4;  // of a row
static_assert(sizeof(Segment) == kNumbers * sizeof(std::int64_t));

}  // namespace

SegmentTable SegmentTable::slice(std::int64_t first, std::int64_t count) const {
  return {host.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
          device.slice(0, first, count)};
}

std::int64_t SegmentTable::elements() const {
  std::int64_t sum = 0;
  for (const Segment& segment : host) sum += segment.count;
  return sum;
}

std::int64_t SegmentTable::blocks() const {
  if (host.empty()) return 0;
  return host.back().first_block + blocks_of(host.back()) - host.front().first_block;
}

Tensor allocate_segments(Arena& arena, std::size_t rows) {
  return arena.allocate(DType::kI64, {static_cast<std::int64_t>(rows), kNumbers});
}

void upload_segments(Context& context, const SegmentTable& table) {
  context.backend.upload(context.queue, table.device, std::as_bytes(table.host));
}

void expect_segments(std::string_view op, const SegmentTable& table, std::int64_t first,
                     std::int64_t n, std::int64_t groups) {
  expect_shape(op, "the table", table.device, {std::ssize(table.host), kNumbers}, DType::kI64);
  expect_contiguous(op, table.device);
  std::int64_t blocks = table.host.empty() ? 0 : table.host.front().first_block;
  for (const Segment& segment : table.host) {
    PHALANX_CHECK(
        segment.count > 0 && segment.begin >= first && segment.begin + segment.count <= first + n,
        "{}: a segment of {} elements from {} on in {} from {} on", op, segment.count,
        segment.begin, n, first);
    PHALANX_CHECK(segment.first_block == blocks, "{}: a segment with {} blocks in front, not {}",
                  op, segment.first_block, blocks);
    PHALANX_CHECK(segment.group >= 0 && segment.group < groups, "{}: group {} of {}", op,
                  segment.group, groups);
    blocks += blocks_of(segment);
  }
}

}  // namespace phalanx::ops
