#pragma once
// ops/balance.h on a device.

#include "phalanx/ops/cuda/context.h"
#include "phalanx/ops/router_rule.h"

namespace phalanx::cuda {

struct BalanceCall {
  std::int64_t rows = 0;
  std::int64_t sequences = 1;  // row r is of sequence r % sequences
  std::int64_t experts = 0;    // at most kMostExperts
  std::int64_t chosen = 0;     // of a token
  ops::RouterScore score = ops::RouterScore::kSoftmax;
  const float* logits = nullptr;   // [rows, experts]
  std::int32_t* counts = nullptr;  // [sequences, experts]
  double* score_sums = nullptr;    // [sequences, experts]
  double* z_loss = nullptr;        // may be null
  double z_factor = 1.0;
};
// Scratch: balance_scratch_bytes.
void balance_statistics(const CudaContext& context, const BalanceCall& call);

// loss += factor sum(counts score_sums). The counts of `counted` elements, a divisor of n, stand
// for all n.
void balance_loss(const CudaContext& context, double* loss, const std::int32_t* counts,
                  std::int64_t counted, const double* score_sums, std::int64_t n, double factor);

// dscores = scale factor counts, or are added to.
void balance_gradient(const CudaContext& context, float* dscores, std::int64_t n,
                      const std::int32_t* counts, std::int64_t counted, const float* scale,
                      double factor, bool adds);

// counts[e] += the pairs whose place is e.
void expert_counts(const CudaContext& context, std::int32_t* counts, std::int64_t experts,
                   const std::int32_t* places, std::int64_t pairs, bool adds);

void expert_bias_update(const CudaContext& context, float* bias, const std::int32_t* counts,
                        std::int64_t experts, double rate);

}  // namespace phalanx::cuda
