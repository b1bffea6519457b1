#include "phalanx/checkpoint/box_copy.h"

#include <algorithm>
#include <cstring>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Rows of a box, counted from its first.
struct RowsOfBox {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

RowsOfBox rows_within(const ParamBox& box, std::int64_t row_begin, std::int64_t row_end) {
  RowsOfBox range{.begin = std::max<std::int64_t>(row_begin - box.global_row, 0),
                  .end = std::min(row_end - box.global_row, box.rows)};
  range.end = std::max(range.begin, range.end);
  return range;
}

}  // namespace

std::int64_t packed_bytes(std::span<const ParamBox> boxes, DType dtype, std::int64_t row_begin,
                          std::int64_t row_end) {
  std::int64_t elements = 0;
  for (const auto& box : boxes) {
    const RowsOfBox rows = rows_within(box, row_begin, row_end);
    elements += (rows.end - rows.begin) * box.columns;
  }
  return elements * size_of(dtype);
}

void pack_rows(const GlobalTensor& tensor, std::int64_t row_begin, std::int64_t row_end,
               std::byte* out) {
  const std::int64_t size = size_of(tensor.local.dtype);
  for (const auto& box : tensor.boxes) {
    if (box.columns == 0) continue;
    const RowsOfBox rows = rows_within(box, row_begin, row_end);
    for (std::int64_t row = rows.begin; row < rows.end;) {
      const std::int64_t rows_now = std::min(tensor.rows_at_once(box), rows.end - row);
      const std::int64_t count = rows_now * box.columns;
      tensor.memory->read(elements_of(tensor.local, tensor.local_element(box, row), count),
                          {out, static_cast<std::size_t>(count * size)});
      out += count * size;
      row += rows_now;
    }
  }
}

void unpack_rows(std::span<const ParamBox> boxes, DType dtype, std::int64_t global_columns,
                 std::int64_t row_begin, std::int64_t row_end, std::span<const std::byte> packed,
                 std::byte* global_rows) {
  PHALANX_CHECK(std::ssize(packed) == packed_bytes(boxes, dtype, row_begin, row_end),
                "{} packed bytes, the boxes have {} in rows {} to {}", packed.size(),
                packed_bytes(boxes, dtype, row_begin, row_end), row_begin, row_end);
  const std::int64_t size = size_of(dtype);
  const std::byte* from = packed.data();
  for (const auto& box : boxes) {
    PHALANX_CHECK(box.global_column >= 0 && box.columns <= global_columns - box.global_column,
                  "columns {} to {} of {}", box.global_column, box.global_column + box.columns,
                  global_columns);
    const auto bytes = static_cast<std::size_t>(box.columns * size);
    if (bytes == 0) continue;
    const RowsOfBox rows = rows_within(box, row_begin, row_end);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t global_row = box.global_row + row - row_begin;
      std::memcpy(global_rows + (global_row * global_columns + box.global_column) * size, from,
                  bytes);
      from += bytes;
    }
  }
}

}  // namespace phalanx
