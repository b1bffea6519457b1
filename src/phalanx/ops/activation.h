#pragma once
// Activations. y = gelu(x + bias): two forms (Hendrycks and Gimpel, 2016): tanh is Megatron's fused
// default, erf the exact one. y = tanh(x).

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

// Of tensors of any shape.
struct TanhForward {
  Tensor y;  // may be x
  Tensor x;
};

// dx = dy (1 - y^2).
struct TanhBackward {
  Tensor dx;  // may be dy
  Tensor dy;
  Tensor y;
};

OpCost cost(const BiasGeluForward& op);
OpCost cost(const BiasGeluBackward& op);
OpCost cost(const TanhForward& op);
OpCost cost(const TanhBackward& op);

void bias_gelu_forward(Context& context, const BiasGeluForward& op);
void bias_gelu_backward(Context& context, const BiasGeluBackward& op);
void tanh_forward(Context& context, const TanhForward& op);
void tanh_backward(Context& context, const TanhBackward& op);

}  // namespace phalanx::ops
