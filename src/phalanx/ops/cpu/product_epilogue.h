#pragma once
// What happens to the sums of a matrix product before they are stored. A fusion rounds at the same
// places as its separate ops.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/activation.h"

namespace phalanx::cpu {

// Dense rows, `stride` elements apart. Data is null in a plan and for an absent tensor.
struct EpilogueRows {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;  // elements
};

struct Epilogue {
  enum class Kind {
    kStore,               // c = sum + bias, or c += sum
    kActivation,          // c = sum + bias, activated = f(c + activation_bias)
    kActivationGradient,  // c = sum * f'(x + activation_bias); the sum is rounded first
  };
  Kind kind = Kind::kStore;
  EpilogueRows c = {};
  bool accumulate = false;  // for kStore into an f32 c
  bool has_bias = false;
  const std::byte* bias = nullptr;  // [columns], of bias_dtype
  DType bias_dtype = DType::kF32;
  const float* bias_factors = nullptr;         // [rows], optional: of kStore, multiply the bias
  EpilogueRows other = {};                     // activated or x, of c's type; apart from c
  const std::byte* activation_bias = nullptr;  // optional, of c's type
  ops::ActivationKind activation = ops::ActivationKind::kGeluTanh;

  // The sums go to c unchanged or are added to it.
  bool is_plain() const { return kind == Kind::kStore && c.dtype == DType::kF32 && !has_bias; }
};

// Sums of the elements [row, row + rows) x [column, column + columns) of C.
struct FinishedSums {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  const float* sums = nullptr;
  std::int64_t stride = 0;
};
void finish(const Epilogue& epilogue, const FinishedSums& sums);

// to[i][r] = from[r][i] for sums of C transposed. Memory must cover rows in whole 16s, columns in
// whole 4s.
void transpose_sums(const float* from, std::int64_t from_stride, std::int64_t rows,
                    std::int64_t columns, float* to, std::int64_t to_stride);

}  // namespace phalanx::cpu
