#pragma once
// Balancing the work of experts: what the balancing losses of a router are computed of (Switch
// Transformer; ST-MoE's z-loss, Zoph et al., 2022), how many tokens each expert has, and the update
// of DeepSeek-V3's expert bias.

#include "phalanx/ops/router_rule.h"
#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// Of T tokens with E experts; row r is of sequence r % sequences. A balance score is the softmax
// over all experts, or s / (sum of all s + 1e-20) with kSigmoid and kSqrtSoftplus. The counts are
// those of the k experts with the largest scores (of equal ones the lower index), whatever the
// router chose: without groups, bias and dropping.
struct BalanceStatistics {
  Tensor counts;       // [sequences, E], i32: how many tokens have the expert
  Tensor score_sums;   // [sequences, E], f64: the sum of balance scores over tokens
  Tensor z_loss = {};  // [1], f64, optional: += z_factor * sum over tokens of logsumexp(logits)^2
  Tensor logits;       // [T, E], f32
  std::int64_t chosen = 1;  // k
  RouterScore score = RouterScore::kSoftmax;
  double z_factor = 1.0;
};

// loss += factor * sum(counts * score_sums). One row of counts may stand for all sequences.
struct BalanceLoss {
  Tensor loss;        // [1], f64
  Tensor counts;      // [sequences, E] or [1, E], i32: of all ranks that share the tokens
  Tensor score_sums;  // [sequences, E], f64: of this rank
  double factor = 1.0;
};

// dscores (+)= scale * factor * counts: the derivative of `scale * BalanceLoss` by the balance
// scores of each token of a sequence.
struct BalanceGradient {
  Tensor dscores;  // [sequences, E], f32
  Tensor counts;   // [sequences, E] or [1, E], i32
  Tensor scale;    // [1], f32
  double factor = 1.0;
  bool accumulate = false;
};

// counts[e] (+)= how many pairs have expert e. Dropped ones (negative) do not count.
struct ExpertCounts {
  Tensor counts;   // [E], i32
  Tensor experts;  // [T, k], i32
  bool accumulate = false;
};

// bias[e] += rate * sign(mean of counts - counts[e]); the sign of 0 is 0.
struct ExpertBiasUpdate {
  Tensor bias;    // [E], f32
  Tensor counts;  // [E], i32
  double rate = 1e-3;
};

OpCost cost(const BalanceStatistics& op);
OpCost cost(const BalanceLoss& op);
OpCost cost(const BalanceGradient& op);
OpCost cost(const ExpertCounts& op);
OpCost cost(const ExpertBiasUpdate& op);

void balance_statistics(Context& context, const BalanceStatistics& op);
void balance_loss(Context& context, const BalanceLoss& op);
void balance_gradient(Context& context, const BalanceGradient& op);
void expert_counts(Context& context, const ExpertCounts& op);
void expert_bias_update(Context& context, const ExpertBiasUpdate& op);

}  // namespace phalanx::ops
