#include "phalanx/ops/cuda/scratch.h"

#include <algorithm>

#include "phalanx/base/dtype.h"
#include "phalanx/base/numeric.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

}  // namespace

std::int64_t rows_of_part(std::int64_t rows) {
  constexpr std::int64_t kStep = 128;
  constexpr std::int64_t kMostParts = 256;
  return kStep * std::max<std::int64_t>(1, ceil_div(rows, kStep * kMostParts));
}

std::int64_t parts_of(std::int64_t rows) { return ceil_div(rows, rows_of_part(rows)); }

std::int64_t column_sums_scratch(std::int64_t rows, std::int64_t columns) {
  return parts_of(rows) * columns * size_of(DType::kF32);
}

std::int64_t norm_backward_scratch(std::int64_t rows, std::int64_t columns) {
  return parts_of(rows) * 2 * columns * size_of(DType::kF32);
}

std::int64_t forward_scratch(std::int64_t workspace_bytes, std::int64_t n, bool wide_bias) {
  return workspace_bytes + (wide_bias ? n * size_of(DType::kF32) : 0);
}

std::int64_t most_row_tiles(std::int64_t rows, std::int64_t groups, std::int64_t side) {
  return rows == 0 ? 0 : rows / side + std::min(rows, groups);
}

std::int64_t row_tiles_scratch_bytes(std::int64_t rows, std::int64_t groups) {
  constexpr std::int64_t kSide = 64;
  constexpr std::int64_t kNumbers = 3;  // of a tile
  return kNumbers * most_row_tiles(rows, groups, kSide) * size_of(DType::kI32);
}

std::int64_t sort_key_bytes(std::int64_t rows) {
  return round_up(rows * static_cast<std::int64_t>(sizeof(std::uint64_t)), kAlignment);
}

std::int64_t embedding_gradient_scratch_bytes(std::int64_t rows) {
  return 2 * sort_key_bytes(rows);
}

std::int64_t sparse_embedding_gradient_scratch_bytes(std::int64_t rows) {
  return 2 * sort_key_bytes(rows) +
         round_up(rows * static_cast<std::int64_t>(sizeof(std::int32_t)), kAlignment);
}

std::int64_t place_differences(std::int64_t queries, std::int64_t keys) {
  return std::max<std::int64_t>(0, queries + keys - 1);
}

std::int64_t relative_bias_forward_scratch_bytes(std::int64_t heads, std::int64_t queries,
                                                 std::int64_t keys) {
  return heads * place_differences(queries, keys) * size_of(DType::kF32);
}

std::int64_t relative_bias_backward_scratch_bytes(std::int64_t heads, std::int64_t queries,
                                                  std::int64_t keys) {
  return heads * place_differences(queries, keys) * size_of(DType::kF64);
}

std::int64_t unfused_attention_backward_scratch_bytes(std::int64_t batch, std::int64_t heads,
                                                      std::int64_t queries) {
  return batch * heads * queries * size_of(DType::kF32);
}

std::int64_t sinkhorn_scratch_bytes(std::int64_t rows, std::int64_t experts) {
  return rows * (experts + 1) * size_of(DType::kF64);
}

std::int64_t balance_scratch_bytes(std::int64_t rows, std::int64_t sequences,
                                   std::int64_t experts) {
  const std::int64_t parts = parts_of(ceil_div(rows, sequences));
  return (2 * rows + parts * sequences * experts) * size_of(DType::kF64);
}

}  // namespace phalanx::cuda
