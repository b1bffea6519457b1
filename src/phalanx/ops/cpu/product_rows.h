#pragma once
// What happens to the rows of a product's operands before oneDNN reads them and after it wrote
// them.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"

namespace phalanx::cpu {

// A view of rows; strides in elements.
struct RowView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;
};

// to[r, c] = from[r, c] in fp32.
void widen_rows(const RowView& from, std::int64_t rows, std::int64_t columns, float* to,
                std::int64_t to_stride);

// to[r, c] = tile[r, c] + addend[r, c] + bias[c], rounded to the dtype of `to`. Without data,
// addend or bias count as zero; the addend is fp32, and both it and the tile may be `to` itself.
struct FinishedRows {
  const float* tile = nullptr;
  std::int64_t tile_stride = 0;
  const float* addend = nullptr;
  std::int64_t addend_stride = 0;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::kF32;
  std::byte* to = nullptr;
  DType to_dtype = DType::kF32;
  std::int64_t to_stride = 0;
};
void finish_rows(const FinishedRows& work, std::int64_t rows, std::int64_t columns);

}  // namespace phalanx::cpu
