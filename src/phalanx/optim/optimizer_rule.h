#pragma once
// The rules of --optimizer: how a gradient changes a weight, and which states a weight has. The
// Optimizer handles norm, clipping and skipping.

#include <array>
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

// The numbers of a rule that change with `step`, which is counted from 1.
inline constexpr std::size_t kRuleNumbers = 2;
std::array<double, kRuleNumbers> numbers_of_step(const OptimizerRule& rule, std::int64_t step);

// Segments of flat buffers, of which the tensors are the elements [first, first + n).
struct WeightUpdate {
  Tensor weight;    // [n], f32
  Tensor storage;   // [n], optional: the 16-bit parameters, rounded from weight
  Tensor gradient;  // [n], f32
  Tensors states;   // each [n], f32, in the order of state_names()
  ops::SegmentTable table;
  std::int64_t first = 0;
  Tensor settings;      // [groups, 2], f64: learning rate, weight decay
  Tensor step_numbers;  // [kRuleNumbers], f64
  Tensor factor;        // [1], f32: multiplies the gradient
  Tensor skip;          // [1], f32; if not 0, nothing changes
};
void update_weights(Context& context, const OptimizerRule& rule, const WeightUpdate& update);

}  // namespace phalanx
