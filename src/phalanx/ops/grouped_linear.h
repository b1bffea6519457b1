#pragma once
// Linear layers of groups (experts): each group has rows of its own and a weight of its own. Rows
// are sorted by group: group e has rows [offsets[e], offsets[e + 1]), perhaps none; how many each
// has is data, so scratch memory is that of all rows, and so are costs, unless expected_rows says
// how many there are. Rows in front of the first group
// or behind the last one are not read, and results there stay as they are. Offsets are i32 and rise
// from at least 0 to at most the number of rows.
//
// The weights of all groups are one tensor [groups, n, k]. Each matrix is dense; the distance from
// one to the next is any, also negative, so that parameters of flat buffers need no copy. The same
// is true of biases [groups, n].
//
// A result has the bits that ops/linear.h gives the group alone (on CUDA: near them), so it depends
// neither on other groups nor, row by row, on the number of rows.

#include <cstdint>
#include <optional>

#include "phalanx/ops/linear.h"

namespace phalanx::ops {

struct GroupedLinearForward {
  Tensor y;             // [rows, n]
  Tensor x;             // [rows, k]
  Tensor weight;        // [groups, n, k]
  Tensor offsets;       // [groups + 1], i32
  Tensor bias;          // [groups, n], optional; added before rounding
  Tensor bias_factors;  // [rows], f32, optional: a row gets its factor times the bias
  std::optional<std::int64_t> expected_rows = {};
};

// dx = dy W.
struct GroupedLinearInputGradient {
  Tensor dx;       // [rows, k]
  Tensor dy;       // [rows, n]
  Tensor weight;   // [groups, n, k]
  Tensor offsets;  // [groups + 1], i32
  std::optional<std::int64_t> expected_rows = {};
};

// dweight[e] += dy^T x over the rows of e (or = without accumulate: zeros for a group without
// rows).
struct GroupedLinearWeightGradient {
  Tensor dweight;  // [groups, n, k], f32
  Tensor dy;       // [rows, n]
  Tensor x;        // [rows, k]
  Tensor offsets;  // [groups + 1], i32
  bool accumulate = true;
  std::optional<std::int64_t> expected_rows = {};
};

// dbias[e] += the sum of factor dy over the rows of e, in their order (or = without accumulate).
struct GroupedBiasGradient {
  Tensor dbias;    // [groups, n], f32
  Tensor dy;       // [rows, n]
  Tensor offsets;  // [groups + 1], i32
  Tensor factors;  // [rows], f32, optional
  bool accumulate = true;
};

// dots[r] += dy[r] . bias[e]: the gradient of the bias's factors.
struct GroupedBiasDots {
  Tensor dots;     // [rows], f32
  Tensor dy;       // [rows, n]
  Tensor bias;     // [groups, n]
  Tensor offsets;  // [groups + 1], i32
};

OpCost cost(const GroupedLinearForward& op);
OpCost cost(const GroupedLinearInputGradient& op);
OpCost cost(const GroupedLinearWeightGradient& op);
OpCost cost(const GroupedBiasGradient& op);
OpCost cost(const GroupedBiasDots& op);

void grouped_linear_forward(Context& context, const GroupedLinearForward& op);
void grouped_linear_input_gradient(Context& context, const GroupedLinearInputGradient& op);
void grouped_linear_weight_gradient(Context& context, const GroupedLinearWeightGradient& op);
void grouped_bias_gradient(Context& context, const GroupedBiasGradient& op);
void grouped_bias_dots(Context& context, const GroupedBiasDots& op);

}  // namespace phalanx::ops
