#pragma once
// How kernels see their operands and cut work into tasks. The ops have checked the layout of
// operands (ops/check.h).

#include <algorithm>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::cpu {

// The elements of a dense tensor; null for an absent one.
template <typename T>
T* dense(const Tensor& tensor) {
  return tensor ? tensor.as<T>() : nullptr;
}

// Dense rows, `stride` elements apart.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;

  T* operator[](std::int64_t row) const { return data + row * stride; }
};

// A matrix [rows, columns] as rows. A tensor of higher rank must be dense. Data is null for an
// absent tensor.
template <typename T>
Rows<T> rows_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {tensor.as<T>(), tensor.shape.rank() == 2 ? tensor.strides[0] : tensor.shape.back()};
}

// [0, total) in blocks of `size`; the last block may be shorter.
struct Blocks {
  std::int64_t total = 0;
  std::int64_t size = 1;

  std::int64_t count() const { return ceil_div(total, size); }
  std::int64_t begin(std::int64_t block) const { return block * size; }
  std::int64_t end(std::int64_t block) const { return std::min(total, (block + 1) * size); }
};

// A task of this many elements costs much more than its start on a thread.
inline constexpr std::int64_t kTaskElements = 16384;

inline Blocks element_blocks(std::int64_t count) { return {count, kTaskElements}; }

// Rows for elementwise work and reductions within rows.
inline Blocks row_blocks(std::int64_t rows, std::int64_t columns) {
  return {rows, std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, columns))};
}

// Rows for sums over rows. Every block has a partial sum in scratch, so there are at most 64.
inline Blocks partial_sum_blocks(std::int64_t rows) {
  return {rows, std::max<std::int64_t>(32, ceil_div(rows, 64))};
}

// Columns, for work that takes rows in order. A block is whole cache lines and vectors.
inline Blocks column_blocks(std::int64_t columns) { return {columns, 128}; }

}  // namespace phalanx::cpu
