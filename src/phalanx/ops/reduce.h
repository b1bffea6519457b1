#pragma once
// Norms and what is computed from them, as tensors that later ops read without the host.

#include "phalanx/ops/segments.h"

namespace phalanx::ops {

// sums[group + i] = sum of x^2 in fp64 over a segment's elements in the i-th block of the grid that
// it touches. Other sums stay as they are.
struct SquareSumSegments {
  Tensor sums;  // [m], f64
  Tensor x;     // [n], f32: elements [first, first + n)
  SegmentTable table;
  std::int64_t first = 0;
};

// counts[group + i] = those of them that are exactly zero.
struct ZeroCountSegments {
  Tensor counts;  // [m], f64
  Tensor x;       // [n], f32
  SegmentTable table;
  std::int64_t first = 0;
};

// totals[group] = the segment's elements, added in their order. Other totals stay as they are.
struct TotalSegments {
  Tensor totals;  // [m], f64
  Tensor x;       // [n], f64
  SegmentTable table;
};

// sum = x[0] + x[1] + ..., in this order.
struct Total {
  Tensor sum;  // [1], f64
  Tensor x;    // [n], f64
};

// From the square sums of all parameters (in global parameter order) to what the optimizer
// multiplies gradients by:
//   loss_scale = not a number if one of `checked` is not finite
//   average = expected_tokens / tokens / loss_scale (0 if tokens is 0)
//   norm = sqrt(sum of sums) * average
//   factor = average * min(1, clip / (norm + 1e-6)) (no clipping if clip is 0)
//   skip = norm is not finite
struct GradientFactor {
  Tensor norm;             // [1], f32
  Tensor factor;           // [1], f32
  Tensor skip;             // [1], f32: 0 or 1
  Tensor square_sums;      // [n], f64
  Tensor tokens;           // [1], f64: unmasked ones of the global batch; absent: the expected ones
  Tensor expected_tokens;  // [1], f64; read with tokens
  Tensor loss_scale;       // [1], f32
  Tensor checked = {};     // [m], f64, optional: losses
  double clip = 0.0;
};

OpCost cost(const SquareSumSegments& op);
OpCost cost(const ZeroCountSegments& op);
OpCost cost(const TotalSegments& op);
OpCost cost(const Total& op);
OpCost cost(const GradientFactor& op);

void square_sum_segments(Context& context, const SquareSumSegments& op);
void zero_count_segments(Context& context, const ZeroCountSegments& op);
void total_segments(Context& context, const TotalSegments& op);
void total(Context& context, const Total& op);
void gradient_factor(Context& context, const GradientFactor& op);

}  // namespace phalanx::ops
