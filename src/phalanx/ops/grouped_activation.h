#pragma once
// Activations of experts: ops/activation.h with a bias for each group of rows and a probability for
// each row, y = p f(x + bias) or p f(gate + its bias) (up + its bias). Groups are as in
// ops/grouped_linear.h: rows behind the last one are not read, and results there stay as they are.

#include "phalanx/ops/activation.h"
#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct GroupedActivationForward {
  Tensor y;              // [rows, n]
  Tensor x;              // [rows, n], or [rows, 2n] where gated: [gate | up]
  Tensor offsets;        // [groups + 1], i32
  Tensor bias;           // [groups, columns of x], optional
  Tensor probabilities;  // [rows], f32, optional
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = true;
};

struct GroupedActivationBackward {
  Tensor dx;              // as x; may be x, or dy where nothing is gated
  Tensor dprobabilities;  // [rows], f32, with probabilities: dy . y / p, summed in fp32
  Tensor dy;              // [rows, n]
  Tensor x;
  Tensor offsets;
  Tensor bias;
  Tensor probabilities;
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = true;
};

OpCost cost(const GroupedActivationForward& op);
OpCost cost(const GroupedActivationBackward& op);

void grouped_activation_forward(Context& context, const GroupedActivationForward& op);
void grouped_activation_backward(Context& context, const GroupedActivationBackward& op);

}  // namespace phalanx::ops
