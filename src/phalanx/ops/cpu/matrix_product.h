#pragma once
// The engine of all matrix products on the CPU. It follows a plan (product_plan.h), packs operands
// (panel_packing.h), runs the tiles of a kernel (panel_kernel.h) and passes finished tiles to an
// epilogue (product_epilogue.h).

#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/product_epilogue.h"
#include "phalanx/ops/cpu/product_plan.h"

namespace phalanx::cpu {

// Element (i, j) is at i * stride + j, or at j * stride + i when transposed. Data is null in a
// plan.
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
  // Also sums the rows of A over k into f32[m] (line_sums.h); A must be transposed.
  bool sums_rows = false;
  float* row_sums = nullptr;
  bool accumulate_row_sums = true;
  // Elements of the matrix of which C is some rows; 0: C is all of it. Rows have the bits that they
  // have in the whole.
  std::int64_t whole_elements = 0;
};

ProductShape shape_of(const MatrixProduct& product);

std::int64_t workspace_bytes_of(const CpuDevice& device, const MatrixProduct& product);
// At least what every product needs that is `most` but for fewer rows or columns of C, or less
// depth, and without sums of rows.
std::int64_t most_workspace_bytes_of(const CpuDevice& device, const MatrixProduct& most);
// The blocks of depth in which the rows of A are summed.
std::int64_t row_sums_block_of(const CpuDevice& device, const MatrixProduct& product);
// By the device's threads; with one thread, a thread of a team may call it, too.
void multiply(const CpuDevice& device, const MatrixProduct& product, std::byte* workspace);

}  // namespace phalanx::cpu
