#pragma once
// ops/activation.h on a device. Operands of one call have one type.

#include "phalanx/ops/activation.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

struct ActivationCall {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // of y
  ops::ActivationKind kind = ops::ActivationKind::kGeluTanh;
  TypedAddress bias;  // [columns], or [2 columns] of gated ones; may be absent
};

void bias_activation_forward(const CudaContext& context, const ActivationCall& call, TypedAddress y,
                             TypedAddress x);
// dx may be dy.
void bias_activation_backward(const CudaContext& context, const ActivationCall& call,
                              TypedAddress dx, TypedAddress dy, TypedAddress x);
// x is [rows, 2 columns].
void gated_activation_forward(const CudaContext& context, const ActivationCall& call,
                              TypedAddress y, TypedAddress x);
// dx may be x.
void gated_activation_backward(const CudaContext& context, const ActivationCall& call,
                               TypedAddress dx, TypedAddress dy, TypedAddress x);
void tanh_forward(const CudaContext& context, TypedAddress y, TypedAddress x, std::int64_t n);
void tanh_backward(const CudaContext& context, TypedAddress dx, TypedAddress dy, TypedAddress y,
                   std::int64_t n);

}  // namespace phalanx::cuda
