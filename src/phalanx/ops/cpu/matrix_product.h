#pragma once
// The engine of all matrix products on the CPU: one loop around the tiles (panel_kernel.h) that
// does what a plan says (product_plan.h), with operands packed on the way (panel_packing.h) and
// finished tiles handed to an epilogue (product_epilogue.h).

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/product_epilogue.h"

namespace phalanx::cpu {

// Element (i, j) lies at i * stride + j, or at j * stride + i when transposed; null data while
// planning.
struct Matrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;
  bool transposed = false;
};

// C[m, n] = A[m, k] B[k, n], followed by the epilogue.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  Epilogue epilogue = {};
  // For an A that is transposed: its rows are summed over k (line_sums.h) into f32[m].
  bool sums_rows = false;
  float* row_sums = nullptr;
  bool accumulate_row_sums = true;
};

std::int64_t workspace_bytes_of(const CpuDevice& device, const MatrixProduct& product);
void multiply(const CpuDevice& device, const MatrixProduct& product, std::byte* workspace);

}  // namespace phalanx::cpu
