#pragma once
// What is done with the sums of a matrix product before they are stored. A fusion rounds where its
// parts would.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/activation.h"

namespace phalanx::cpu {

// Dense rows, `stride` elements apart; null data while planning, or for an absent tensor.
struct EpilogueRows {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;  // elements
};

struct Epilogue {
  enum class Kind {
    kStore,               // c = sum + bias, or c += sum
    kActivation,          // c = sum + bias, activated = f(c + activation_bias)
    kActivationGradient,  // c = sum * f'(x + activation_bias), the sum rounded before
  };
  Kind kind = Kind::kStore;
  EpilogueRows c = {};
  bool accumulate = false;  // kStore into an f32 c
  bool has_bias = false;
  const std::byte* bias = nullptr;  // [columns], of bias_dtype
  DType bias_dtype = DType::kF32;
  EpilogueRows other = {};                     // activated or x, of c's type
  const std::byte* activation_bias = nullptr;  // optional, of c's type
  ops::ActivationKind activation = ops::ActivationKind::kGeluTanh;

  // c takes sums as they are, or adds them.
  bool is_plain() const { return kind == Kind::kStore && c.dtype == DType::kF32 && !has_bias; }
};

// Sums of the elements [row, row + rows) x [column, column + columns) of C.
struct FinishedSums {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  const float* sums = nullptr;
  std::int64_t stride = 0;
};
void finish(const Epilogue& epilogue, const FinishedSums& sums);

// to[i][r] = from[r][i]: sums of C transposed; rows and columns in whole sixteens and fours have
// memory.
void turn_sums(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t to_stride);

}  // namespace phalanx::cpu
