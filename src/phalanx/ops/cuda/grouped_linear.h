#pragma once
// ops/grouped_linear.h on a device. Operands of one product have one storage type.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// Rows of groups: group e has rows [offsets[e], offsets[e + 1]) of `rows` rows.
struct GroupedRows {
  const std::int32_t* offsets = nullptr;
  std::int64_t groups = 0;
  std::int64_t rows = 0;
};

// A matrix [n, k] for each group, or a row of n numbers.
struct GroupedMatrices {
  TypedAddress data;
  std::int64_t stride = 0;  // elements from one to the next
  std::int64_t n = 0, k = 0;
};

// y = x W^T (+ factor bias).
void grouped_linear_forward(const CudaContext& context, const GroupedRows& groups,
                            const TypedRows& y, const TypedRows& x, const GroupedMatrices& weight,
                            const TypedRows& bias, const float* factors);
// dx = dy W.
void grouped_linear_input_gradient(const CudaContext& context, const GroupedRows& groups,
                                   const TypedRows& dx, const TypedRows& dy,
                                   const GroupedMatrices& weight);
void grouped_linear_weight_gradient(const CudaContext& context, const GroupedRows& groups,
                                    const GroupedMatrices& dweight, const TypedRows& dy,
                                    const TypedRows& x, bool accumulate);
void grouped_bias_gradient(const CudaContext& context, const GroupedRows& groups,
                           const TypedRows& dbias, const TypedRows& dy, std::int64_t columns,
                           const float* factors, bool accumulate);
void grouped_bias_dots(const CudaContext& context, const GroupedRows& groups, float* dots,
                       const TypedRows& dy, const TypedRows& bias, std::int64_t columns);

}  // namespace phalanx::cuda
