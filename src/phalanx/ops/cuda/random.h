#pragma once
// ops/random.h on a device.

#include "phalanx/base/philox.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// A box of a global matrix: its element (r, c) is element (first_row + r) * global_columns +
// first_column + c.
struct DrawCall {
  TypedAddress x;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t global_columns = 0;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  PhiloxKey key;
  std::uint64_t parameter = 0;
};
void normal(const CudaContext& context, const DrawCall& call, double deviation);
void uniform(const CudaContext& context, const DrawCall& call, double bound);

}  // namespace phalanx::cuda
