#pragma once
// Norms and what is computed from them, as one-element tensors that later ops read without the
// host.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// Sums over a range of a flat buffer are taken block by block, on a grid of the buffer: however the
// buffer is cut at multiples of this many elements, the blocks of one parameter have the same sums.
inline constexpr std::int64_t kSumBlock = 4096;

// The blocks that `n` elements touch when the first is `lead` elements into its block.
constexpr std::int64_t sum_blocks(std::int64_t lead, std::int64_t n) {
  return (lead + n + kSumBlock - 1) / kSumBlock;
}

// sums[i] = sum of x^2 in fp64 over the elements of the i-th block that x touches.
struct SquareSum {
  Tensor sums;            // [sum_blocks(lead, n)], f64
  Tensor x;               // [n], f32
  std::int64_t lead = 0;  // elements of the first block in front of x; below kSumBlock
};

// counts[i] = elements of the i-th block that are exactly zero.
struct ZeroCount {
  Tensor counts;  // [sum_blocks(lead, n)], f64
  Tensor x;       // [n], f32
  std::int64_t lead = 0;
};

// sum = x[0] + x[1] + ..., in this order.
struct Total {
  Tensor sum;  // [1], f64
  Tensor x;    // [n], f64
};

// From the square sums of all parameters (in global parameter order) to what the optimizer
// multiplies gradients by:
//   average = expected_tokens / tokens / loss_scale (0 if tokens is 0)
//   norm = sqrt(sum of sums) * average
//   factor = average * min(1, clip / (norm + 1e-6)) (no clipping if clip is 0)
//   skip = norm is not finite
struct GradientFactor {
  Tensor norm;         // [1], f32
  Tensor factor;       // [1], f32
  Tensor skip;         // [1], f32: 0 or 1
  Tensor square_sums;  // [n], f64
  Tensor tokens;       // [1], f64: unmasked ones of the global batch; absent: the expected ones
  Tensor loss_scale;   // [1], f32
  double expected_tokens = 1.0;
  double clip = 0.0;
};

OpCost cost(const SquareSum& op);
OpCost cost(const ZeroCount& op);
OpCost cost(const Total& op);
OpCost cost(const GradientFactor& op);

void square_sum(Context& context, const SquareSum& op);
void zero_count(Context& context, const ZeroCount& op);
void total(Context& context, const Total& op);
void gradient_factor(Context& context, const GradientFactor& op);

}  // namespace phalanx::ops
