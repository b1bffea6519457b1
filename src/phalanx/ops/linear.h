#pragma once
// Matrix products of linear layers, y = x W^T + b. Weights are [out, in]; products accumulate in
// fp32 at least. Whether 16-bit operands are multiplied as they are or as fp32 is the backend's
// recorded policy. Operations that are fused with a product are part of its op; each fusion has the
// bits of its parts.

#include "phalanx/ops/activation.h"
#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct LinearForward {
  Tensor y;       // [rows, n]; f32 is allowed for 16-bit operands (logits)
  Tensor x;       // [rows, k]
  Tensor weight;  // [n, k]
  Tensor bias;    // [n], optional; added before rounding
  // Optional: also activated = f(y + bias), as bias_activation_forward. y is in storage type
  // then.
  struct Activation {
    Tensor activated;  // [rows, n]
    Tensor bias;       // [n], optional
    ActivationKind kind = ActivationKind::kGeluTanh;
  };
  Activation activation = {};
};

// dx = dy W.
struct LinearInputGradient {
  Tensor dx;      // [rows, k]
  Tensor dy;      // [rows, n]
  Tensor weight;  // [n, k]
  // Optional: dx is then multiplied by f'(x + bias), as bias_activation_backward does.
  struct Activation {
    Tensor x;     // [rows, k], storage type
    Tensor bias;  // [k], optional
    ActivationKind kind = ActivationKind::kGeluTanh;
  };
  Activation activation = {};
};

// dweight += dy^T x, dbias += column sums of dy (or = without accumulate), in fp32 (f64 in the
// reference).
struct LinearWeightGradient {
  Tensor dweight;  // [n, k], f32
  Tensor dy;       // [rows, n]
  Tensor x;        // [rows, k]
  bool accumulate = true;
  Tensor dbias = {};  // [n], f32, optional; as bias_gradient computes it
};

// dbias += column sums of dy (or = without accumulate).
struct BiasGradient {
  Tensor dbias;  // [n], f32
  Tensor dy;     // [rows, n]
  bool accumulate = true;
};

OpCost cost(const LinearForward& op);
OpCost cost(const LinearInputGradient& op);
OpCost cost(const LinearWeightGradient& op);
OpCost cost(const BiasGradient& op);

void linear_forward(Context& context, const LinearForward& op);
void linear_input_gradient(Context& context, const LinearInputGradient& op);
void linear_weight_gradient(Context& context, const LinearWeightGradient& op);
void bias_gradient(Context& context, const BiasGradient& op);

}  // namespace phalanx::ops
