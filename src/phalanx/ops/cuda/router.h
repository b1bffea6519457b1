#pragma once
// ops/router.h on a device.

#include "phalanx/ops/cuda/context.h"
#include "phalanx/ops/router_rule.h"

namespace phalanx::cuda {

// Of tokens with at most kMostExperts experts, of which at most kMostChosenExperts are chosen.
struct RouterCall {
  std::int64_t rows = 0;
  std::int64_t experts = 0;
  std::int64_t chosen = 0;  // of a token
  ops::RouterRule rule;
  const float* logits = nullptr;   // [rows, experts]; not finite: a fault of router_forward
  std::int32_t* places = nullptr;  // [rows, chosen]: the experts of a token
};

// probabilities is [rows, chosen]; the bias [experts] may be null.
void router_forward(const CudaContext& context, const RouterCall& call, ops::RouterChoice choice,
                    float* probabilities, const float* bias);

struct RouterGradientCall {
  float* dlogits = nullptr;               // [rows, experts]
  const float* dprobabilities = nullptr;  // [rows, chosen]
  const float* dscores = nullptr;         // [sequences, experts]; may be null
  std::int64_t sequences = 1;
  double z_loss = 0.0;
  const float* scale = nullptr;  // may be null where z_loss is 0
};
void router_backward(const CudaContext& context, const RouterCall& call,
                     const RouterGradientCall& gradient);

// Of each expert's pairs all but `capacity` are dropped.
void router_capacity(const CudaContext& context, std::int32_t* places, float* probabilities,
                     std::int64_t pairs, std::int64_t experts, std::int64_t capacity,
                     bool by_probability);

// Rule and places' probabilities are not used. Scratch: sinkhorn_scratch_bytes.
void sinkhorn_choice(const CudaContext& context, const RouterCall& call);

}  // namespace phalanx::cuda
