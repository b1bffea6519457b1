#pragma once
// The engine of all matrix products on the CPU. oneDNN multiplies tiles, each on one thread; what
// lies around the tiles is ours: a panel of B is copied dense into the cache of the thread that
// uses it (plain operands with leading dimensions of 3072 or 50304 run at half speed), 16-bit
// operands are widened on the way, A is staged where it is transposed. The cut follows the shape,
// and every element of C is summed in the order of k by one thread.

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

// Element (i, j) lies at i * stride + j, or at j * stride + i when transposed; null data while
// planning.
struct Matrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;
  bool transposed = false;

  std::byte* at(std::int64_t i, std::int64_t j) const {
    return data + (transposed ? j * stride + i : i * stride + j) * size_of(dtype);
  }
};

// C[m, n] = A[m, k] B[k, n] + bias[n], or C += A B (an f32 C alone). C is not transposed.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  bool biased = false;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::kF32;
  bool accumulate = false;
};

std::int64_t workspace_bytes_of(const CpuDevice& device, const MatrixProduct& product);
void multiply(const CpuDevice& device, const MatrixProduct& product, std::byte* workspace);

}  // namespace phalanx::cpu
