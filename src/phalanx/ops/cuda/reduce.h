#pragma once
// ops/reduce.h on a device.

#include "phalanx/ops/cuda/segments.h"

namespace phalanx::cuda {

// results[group + i]: of a segment's i-th block of the grid.
struct BlockTermsCall {
  DeviceSegments segments;
  double* results = nullptr;
  const float* x = nullptr;
};
void square_sum_segments(const CudaContext& context, const BlockTermsCall& call);
void zero_count_segments(const CudaContext& context, const BlockTermsCall& call);
// totals[group] = the segment's elements in their order.
void total_segments(const CudaContext& context, const DeviceSegments& segments, double* totals,
                    const double* x);
// sum = x[0] + x[1] + ..., in this order.
void total(const CudaContext& context, double* sum, const double* x, std::int64_t n);

struct GradientFactorCall {
  float* norm = nullptr;
  float* factor = nullptr;
  float* skip = nullptr;
  const double* square_sums = nullptr;
  std::int64_t n = 0;
  const double* tokens = nullptr;           // null: the expected ones
  const double* expected_tokens = nullptr;  // may be null where tokens is
  const float* loss_scale = nullptr;
  double clip = 0.0;
  const double* checked = nullptr;  // null where there are none
  std::int64_t checked_count = 0;
};
void gradient_factor(const CudaContext& context, const GradientFactorCall& call);

}  // namespace phalanx::cuda
