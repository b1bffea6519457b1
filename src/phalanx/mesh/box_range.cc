#include "phalanx/mesh/box_range.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

ParamBox part_of(const ParamBox& box, std::int64_t row, std::int64_t rows, std::int64_t column,
                 std::int64_t columns) {
  ParamBox part = box;
  part.global_row += row;
  part.global_column += column;
  part.local_row += row;
  part.local_column += column;
  part.rows = rows;
  part.columns = columns;
  return part;
}

// Appends the part of one box that lies in elements [begin, end) of a matrix with rows of `length`.
void clip(const ParamBox& box, std::int64_t length, std::int64_t begin, std::int64_t end,
          std::vector<ParamBox>& boxes) {
  // Only the first and the last row that the range touches can be cut.
  std::int64_t first = std::max<std::int64_t>(begin / length - box.local_row, 0);
  std::int64_t last = std::min((end - 1) / length - box.local_row, box.rows - 1);
  if (first > last) return;
  const auto columns_of = [&](std::int64_t row) {
    const std::int64_t start = (box.local_row + row) * length + box.local_column;
    return std::pair(std::clamp<std::int64_t>(begin - start, 0, box.columns),
                     std::clamp<std::int64_t>(end - start, 0, box.columns));
  };
  const auto is_cut = [&](std::int64_t row) {
    return columns_of(row) != std::pair(std::int64_t{0}, box.columns);
  };
  const auto append_row = [&](std::int64_t row) {
    const auto [from, to] = columns_of(row);
    if (from < to) boxes.push_back(part_of(box, row, 1, from, to - from));
  };
  if (is_cut(first)) append_row(first++);
  const bool tail = first <= last && is_cut(last);
  if (tail) --last;
  if (first <= last) boxes.push_back(part_of(box, first, last - first + 1, 0, box.columns));
  if (tail) append_row(last + 1);
}

}  // namespace

std::vector<ParamBox> boxes_of_range(const ParamSpec& spec, std::int64_t begin,
                                     std::int64_t count) {
  PHALANX_CHECK(begin >= 0 && count >= 0 && begin <= spec.local_shape.count() - count,
                "{}: elements {} to {} of a local {}", spec.name, begin, begin + count,
                spec.local_shape.to_string());
  std::vector<ParamBox> boxes;
  if (count == 0) return boxes;
  const std::int64_t length = matrix_columns(spec.local_shape);
  for (const auto& box : spec.boxes) clip(box, length, begin, begin + count, boxes);
  return boxes;
}

}  // namespace phalanx
