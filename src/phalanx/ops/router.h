#pragma once
// The router of a mixture of experts: from the logits of all experts to the experts of every token
// and their probabilities. Group-limited choice and expert bias are those of DeepSeek-V2 and -V3
// (2024); capacity is Switch Transformer's (Fedus et al., 2021); Sinkhorn is Megatron's.

#include "phalanx/ops/router_rule.h"
#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// T tokens, E experts, k experts per token. kBest chooses the k experts with the largest choice
// scores; of equal ones those with the lower index. The choice score is the logit for both kinds of
// softmax, else the score plus the bias. (Without bias and groups the logit serves here, too: it
// has the same order, and no two scores are equal because they round to 1.) With groups only
// experts of the best groups can be chosen. What a group's score adds up are choice scores; with
// kSoftmaxFirst, probabilities. Probabilities of the chosen experts, before `scaling`:
//   kSoftmax                   softmax over the chosen
//   kSoftmaxFirst              softmax over all experts
//   kSigmoid, kSqrtSoftplus    s / (sum of the chosen s + 1e-20); s itself if k is 1
// A logit that is not finite is a fault.
struct RouterForward {
  Tensor experts;        // [T, k], i32: rising in a row
  Tensor probabilities;  // [T, k], f32
  Tensor logits;         // [T, E], f32
  Tensor bias = {};      // [E], f32, optional; not with softmax
  RouterRule rule = {};
  RouterChoice choice = RouterChoice::kBest;
};

// dlogits = the derivative by the logits of
//     sum(dprobabilities * probabilities)
//   + sum over rows r and experts of dscores[r % sequences] * balance score   (ops/balance.h)
//   + z_loss * scale * sum over rows of logsumexp(logits)^2.
// Which experts are chosen is a constant. Those of dropped pairs took part in the normalisation;
// their own dprobabilities count as 0.
struct RouterBackward {
  Tensor dlogits;         // [T, E], f32
  Tensor dprobabilities;  // [T, k], f32
  Tensor logits;          // [T, E], f32
  Tensor experts;         // [T, k], i32: as router_forward or router_capacity left them
  RouterRule rule = {};
  Tensor dscores = {};  // [sequences, E], f32, optional
  double z_loss = 0.0;
  Tensor scale = {};  // [1], f32; read with z_loss
};

// Which tokens an expert keeps that has more than its capacity.
enum class DropPolicy : std::uint8_t {
  kProbability,  // those with the largest probability; of equal ones the lower row
  kPosition,     // the first rows
};

// Of the pairs of every expert, all but `capacity` are dropped: the expert becomes
// dropped_expert(expert). The probability of a dropped pair is 0, others do not change. Pairs that
// were dropped before stay so.
struct RouterCapacity {
  Tensor experts;        // [T, k], i32, in and out; the experts of a row differ
  Tensor probabilities;  // [T, k], f32, in and out; not negative
  std::int64_t all_experts = 0;
  std::int64_t capacity = 0;
  DropPolicy policy = DropPolicy::kProbability;
};

// min(T, ceil(T * k / E * factor)): the rows that an expert computes at most.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t chosen, std::int64_t experts,
                             double factor);

// The best k experts of every token in C = exp(logits), whose rows and columns are scaled until all
// tokens and all experts have about equal weight: with d1 = 1 at first,
//   d0 = 1 / (T (C d1 + 1e-8)), d1' = 1 / (E (C^T d0 + 1e-8)) until mean |d1' - d1| <= 1e-4,
// at most 1,000 times; then by d0 C d1. A logit that is not finite is a fault.
struct SinkhornChoice {
  Tensor experts;  // [T, k], i32: rising in a row
  Tensor logits;   // [T, E], f32
};

OpCost cost(const RouterForward& op);
OpCost cost(const RouterBackward& op);
OpCost cost(const RouterCapacity& op);
OpCost cost(const SinkhornChoice& op);

void router_forward(Context& context, const RouterForward& op);
void router_backward(Context& context, const RouterBackward& op);
void router_capacity(Context& context, const RouterCapacity& op);
void sinkhorn_choice(Context& context, const SinkhornChoice& op);

}  // namespace phalanx::ops
