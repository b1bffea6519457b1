#pragma once
// Norms and what follows from them, as one-element tensors that later ops read: the host is not
// asked.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// sum = sum of x^2 in fp64, in blocks fixed by the shape.
struct SquareSum {
  Tensor sum;  // [1], f64
  Tensor x;    // [n], f32
};

// From the square sums of all parameters (in global parameter order) to what the optimizer
// multiplies gradients by:
//   average = expected_tokens / tokens / loss_scale (0 if tokens is 0),  norm = sqrt(sum of sums) *
//   average, factor = average * min(1, clip / (norm + 1e-6)) (no clipping if clip is 0),  skip =
//   norm is not finite.
struct GradientFactor {
  Tensor norm;         // [1], f32
  Tensor factor;       // [1], f32
  Tensor skip;         // [1], f32: 0 or 1
  Tensor square_sums;  // [n], f64
  Tensor
      tokens;  // [1], f64: unmasked tokens of the global batch; optional (average = 1 / loss_scale)
  Tensor loss_scale;  // [1], f32
  double expected_tokens = 1.0;
  double clip = 0.0;
};

OpCost cost(const SquareSum& op);
OpCost cost(const GradientFactor& op);

void square_sum(Context& context, const SquareSum& op);
void gradient_factor(Context& context, const GradientFactor& op);

}  // namespace phalanx::ops
