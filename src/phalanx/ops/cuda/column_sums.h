#pragma once
// Sums over the rows of a matrix.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// sums[c] = the sum over rows of x[r][c], or += with accumulate. The rows are `stride` elements
// apart.
void column_sums(const CudaContext& context, float* sums, TypedAddress x, std::int64_t rows,
                 std::int64_t columns, std::int64_t stride, bool accumulate);

}  // namespace phalanx::cuda
