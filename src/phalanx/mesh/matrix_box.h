#pragma once
// A rectangle of a global tensor that is seen as a matrix (matrix_rows x matrix_columns), and how
// it is cut into pieces.

#include <algorithm>
#include <cstdint>

#include "phalanx/mesh/param_spec.h"

namespace phalanx {

struct MatrixBox {
  std::int64_t row = 0, column = 0;
  std::int64_t rows = 0, columns = 0;

  std::int64_t count() const { return rows * columns; }
  friend bool operator==(const MatrixBox&, const MatrixBox&) = default;
};

inline MatrixBox whole_box(const Shape& shape) {
  return {.rows = matrix_rows(shape), .columns = matrix_columns(shape)};
}

// Where a box of a parameter lies in the global tensor.
inline MatrixBox global_box(const ParamBox& box) {
  return {box.global_row, box.global_column, box.rows, box.columns};
}

// The part that both have; its count is 0 if there is none.
inline MatrixBox overlap(const MatrixBox& a, const MatrixBox& b) {
  const std::int64_t row = std::max(a.row, b.row);
  const std::int64_t column = std::max(a.column, b.column);
  const std::int64_t rows = std::min(a.row + a.rows, b.row + b.rows) - row;
  const std::int64_t columns = std::min(a.column + a.columns, b.column + b.columns) - column;
  if (rows <= 0 || columns <= 0) return {row, column, 0, 0};
  return {row, column, rows, columns};
}

// body(piece) for pieces of at most `most` elements: some rows, or a part of one row where that is
// longer. They come in row-major order.
template <typename Body>
void for_pieces(const MatrixBox& box, std::int64_t most, const Body& body) {
  if (box.count() == 0) return;
  const std::int64_t columns = std::min(box.columns, std::max<std::int64_t>(most, 1));
  const std::int64_t rows = std::max<std::int64_t>(most / box.columns, 1);
  for (std::int64_t row = 0; row < box.rows; row += rows) {
    for (std::int64_t column = 0; column < box.columns; column += columns) {
      body(MatrixBox{box.row + row, box.column + column, std::min(rows, box.rows - row),
                     std::min(columns, box.columns - column)});
    }
  }
}

}  // namespace phalanx
