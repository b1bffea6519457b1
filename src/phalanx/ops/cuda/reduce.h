#pragma once
// ops/reduce.h on a device.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// sums has an element for every block of 4,096 that x touches, whose first element is `lead`
// elements into its block.
void square_sum(const CudaContext& context, double* sums, const float* x, std::int64_t n,
                std::int64_t lead);
void zero_count(const CudaContext& context, double* counts, const float* x, std::int64_t n,
                std::int64_t lead);
// sum = x[0] + x[1] + ..., in this order.
void total(const CudaContext& context, double* sum, const double* x, std::int64_t n);

struct GradientFactorCall {
  float* norm = nullptr;
  float* factor = nullptr;
  float* skip = nullptr;
  const double* square_sums = nullptr;
  std::int64_t n = 0;
  const double* tokens = nullptr;  // null: the expected ones
  const float* loss_scale = nullptr;
  double expected_tokens = 1.0;
  double clip = 0.0;
};
void gradient_factor(const CudaContext& context, const GradientFactorCall& call);

}  // namespace phalanx::cuda
