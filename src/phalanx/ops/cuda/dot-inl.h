#pragma once
// The dot product of two rows by a warp.

#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

// Of n elements; `packed`: both addresses are multiples of 16. A lane has 8 of every 256. Lane 0
// has the sum.
template <typename T>
PHALANX_DEVICE float warp_dot(Thread& t, const T* a, const T* b, std::int64_t n, bool packed) {
  float sum = 0.0F;
  for (std::int64_t i = 8 * t.lane(); i < n; i += 256) {
    float left[8];
    float right[8];
    load8(a, i, n, packed, left);
    load8(b, i, n, packed, right);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = fma_of(left[e], right[e], sum);
  }
  return warp_sum(t, sum);
}

}  // namespace phalanx::cuda
