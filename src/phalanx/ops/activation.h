#pragma once
// y = gelu(x + bias). Two forms (Hendrycks and Gimpel, 2016): tanh is Megatron's fused default, erf
// the exact one.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

enum class Gelu : std::uint8_t { kTanh, kErf };

struct BiasGeluForward {
  Tensor y;     // [rows, n]
  Tensor x;     // [rows, n]
  Tensor bias;  // [n], optional
  Gelu kind = Gelu::kTanh;
};

struct BiasGeluBackward {
  Tensor dx;  // [rows, n]; may be dy itself
  Tensor dy;
  Tensor x;
  Tensor bias;  // optional
  Gelu kind = Gelu::kTanh;
};

OpCost cost(const BiasGeluForward& op);
OpCost cost(const BiasGeluBackward& op);

void bias_gelu_forward(Context& context, const BiasGeluForward& op);
void bias_gelu_backward(Context& context, const BiasGeluBackward& op);

}  // namespace phalanx::ops
