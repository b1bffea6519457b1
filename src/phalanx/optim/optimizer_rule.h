#pragma once
// The rules of --optimizer: how a gradient changes a weight, and which states a weight has. The
// Optimizer handles norm, clipping and skipping.

#include <span>
#include <string_view>
#include <variant>

#include "phalanx/ops/backend.h"

namespace phalanx {

// Adam with decoupled weight decay.
struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// Stochastic gradient descent with weight decay in the gradient, as torch.optim.SGD.
struct SgdRule {
  double momentum = 0.9;  // 0: nothing is kept
};

using OptimizerRule = std::variant<AdamRule, SgdRule>;

// The tensors that a rule keeps of every weight, as PyTorch and checkpoints call them; all of them
// begin with zeros.
std::span<const std::string_view> state_names(const OptimizerRule& rule);

// One dense range of weights.
struct WeightUpdate {
  Tensor weight;    // [n], f32
  Tensor storage;   // [n], optional: the 16-bit parameter, rounded from weight
  Tensor gradient;  // [n], f32
  Tensors states;   // each [n], f32, in the order of state_names()
  Tensor factor;    // [1], f32: multiplies the gradient
  Tensor skip;      // [1], f32; if not 0, nothing changes
  double lr = 0.0;
  double weight_decay = 0.0;
  std::int64_t step = 1;  // from 1
};
void update_weights(Context& context, const OptimizerRule& rule, const WeightUpdate& update);

}  // namespace phalanx
