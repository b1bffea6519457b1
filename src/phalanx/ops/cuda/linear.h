#pragma once
// Products of ops/linear.h through cuBLASLt. Matrices are row-major and dense; y = x W^T + b.

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t n = 0;  // outputs
  std::int64_t k = 0;  // inputs
  bool tf32 = false;   // f32 operands may be rounded to 10 bits of mantissa
};

// The products as cuBLASLt has them; the key under which its choice is kept.
LtProduct forward_product(const LinearShape& shape, DType operands, DType y, bool bias);
LtProduct input_gradient_product(const LinearShape& shape, DType operands);
LtProduct weight_gradient_product(const LinearShape& shape, DType operands, bool accumulate);

// y = x W^T (+ bias, before rounding); f32 is allowed for 16-bit operands.
void linear_forward(const CudaContext& context, const LinearShape& shape, TypedAddress y,
                    TypedAddress x, TypedAddress weight, TypedAddress bias);
// dx = dy W.
void linear_input_gradient(const CudaContext& context, const LinearShape& shape, TypedAddress dx,
                           TypedAddress dy, TypedAddress weight);
// dweight += dy^T x, or = without accumulate.
void linear_weight_gradient(const CudaContext& context, const LinearShape& shape, float* dweight,
                            TypedAddress dy, TypedAddress x, bool accumulate);

}  // namespace phalanx::cuda
