#pragma once
// Activations. y = f(x + bias) with f one of: GeLU (Hendrycks and Gimpel, 2016), of which the tanh
// form is Megatron's fused default and erf the exact one; ReLU; its square (So et al., Primer,
// 2021); SiLU, x sigmoid(x). Gated: y = f(gate) up (Shazeer, GLU Variants Improve Transformer,
// 2020; SwiGLU with SiLU). y = tanh(x).

#include <string_view>

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

enum class ActivationKind : std::uint8_t { kGeluTanh, kGeluErf, kRelu, kSquaredRelu, kSilu };

// "SiLU"
std::string_view name_of(ActivationKind kind);

struct BiasActivationForward {
  Tensor y;     // [rows, n]
  Tensor x;     // [rows, n]
  Tensor bias;  // [n], optional
  ActivationKind kind = ActivationKind::kGeluTanh;
};

struct BiasActivationBackward {
  Tensor dx;  // [rows, n]; may be dy itself
  Tensor dy;
  Tensor x;
  Tensor bias;  // optional
  ActivationKind kind = ActivationKind::kGeluTanh;
};

// y = f(gate + its bias) (up + its bias) with x = [gate | up].
struct GatedActivationForward {
  Tensor y;     // [rows, n]
  Tensor x;     // [rows, 2n]
  Tensor bias;  // [2n], optional
  ActivationKind kind = ActivationKind::kSilu;
};

struct GatedActivationBackward {
  Tensor dx;    // [rows, 2n]: [dgate | dup]; may be x
  Tensor dy;    // [rows, n]
  Tensor x;     // [rows, 2n]
  Tensor bias;  // [2n], optional
  ActivationKind kind = ActivationKind::kSilu;
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

OpCost cost(const BiasActivationForward& op);
OpCost cost(const BiasActivationBackward& op);
OpCost cost(const GatedActivationForward& op);
OpCost cost(const GatedActivationBackward& op);
OpCost cost(const TanhForward& op);
OpCost cost(const TanhBackward& op);

void bias_activation_forward(Context& context, const BiasActivationForward& op);
void bias_activation_backward(Context& context, const BiasActivationBackward& op);
void gated_activation_forward(Context& context, const GatedActivationForward& op);
void gated_activation_backward(Context& context, const GatedActivationBackward& op);
void tanh_forward(Context& context, const TanhForward& op);
void tanh_backward(Context& context, const TanhBackward& op);

}  // namespace phalanx::ops
