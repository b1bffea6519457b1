#pragma once
// Sums of large data: every member ends with the sum of its slice (sum_steps.h).

#include <cstddef>
#include <cstdint>

#include "phalanx/comm/ucx/patterns.h"
#include "phalanx/comm/ucx/sums.h"

namespace phalanx::ucx {

// The data of each rank for member r begins at input + parts.begin(r); `output` is for this rank's
// sum, and may be where its own data for itself lies.
struct SliceSum {
  std::byte* output;
  const std::byte* input;
  Slices parts;
};

Task add_slices(Operation& operation, Sums& sums, const SliceSum& sum);

// The most scratch memory that one takes.
std::int64_t most_slice_sum_bytes(const SumTree& tree, bool has_adders);

}  // namespace phalanx::ucx
