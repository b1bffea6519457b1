#include "phalanx/ops/cuda/balance.h"

#include "phalanx/ops/cuda/balance-inl.h"
#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

// Counters are added to by atomics, which have no signs.
std::uint32_t* counters_of(std::int32_t* counts) {
  return reinterpret_cast<std::uint32_t*>(counts);
}

void fill_zeros(const CudaContext& context, std::int32_t* counts, std::int64_t n) {
  fill(context, {reinterpret_cast<std::byte*>(counts), DType::kI32}, n, 0.0);
}

}  // namespace

void balance_statistics(const CudaContext& context, const BalanceCall& call) {
  const std::int64_t n = call.sequences * call.experts;
  const std::int64_t longest = ceil_div(call.rows, call.sequences);
  auto* log_sums = reinterpret_cast<double*>(
      take_scratch(context, "balance_statistics",
                   balance_scratch_bytes(call.rows, call.sequences, call.experts)));
  double* divisors = log_sums + call.rows;
  double* parts = divisors + call.rows;
  const int experts = static_cast<int>(call.experts);
  fill_zeros(context, call.counts, n);
  launch<BalanceRowsKernel>(context.queue, {ceil_div(call.rows, BalanceRowsKernel::kWarps)},
                            {counters_of(call.counts), log_sums, divisors, call.logits, call.rows,
                             call.sequences, experts, static_cast<int>(call.chosen), call.score});
  launch<BalancePartsKernel>(
      context.queue,
      {ceil_div(call.experts, BalancePartsKernel::kThreads), parts_of(longest), call.sequences},
      {parts, log_sums, divisors, call.logits, call.rows, call.sequences, rows_of_part(longest),
       experts, call.score});
  launch<BalanceSumsKernel>(context.queue, {ceil_div(n, BalanceSumsKernel::kThreads)},
                            {call.score_sums, parts, parts_of(longest), n});
  if (call.z_loss == nullptr) return;
  launch<SquaresKernel>(context.queue, {}, {call.z_loss, log_sums, call.rows, call.z_factor});
}

void balance_loss(const CudaContext& context, double* loss, const std::int32_t* counts,
                  std::int64_t counted, const double* score_sums, std::int64_t n, double factor) {
  launch<BalanceLossKernel>(context.queue, {}, {loss, counts, score_sums, counted, n, factor});
}

void balance_gradient(const CudaContext& context, float* dscores, std::int64_t n,
                      const std::int32_t* counts, std::int64_t counted, const float* scale,
                      double factor, bool adds) {
  launch<BalanceGradientKernel>(context.queue, {ceil_div(n, BalanceGradientKernel::kThreads)},
                                {dscores, counts, scale, counted, n, factor, adds});
}

void expert_counts(const CudaContext& context, std::int32_t* counts, std::int64_t experts,
                   const std::int32_t* places, std::int64_t pairs, bool adds) {
  if (!adds) fill_zeros(context, counts, experts);
  launch<ExpertCountsKernel>(context.queue, {ceil_div(pairs, ExpertCountsKernel::kPairs)},
                             {counters_of(counts), places, pairs, static_cast<int>(experts)});
}

void expert_bias_update(const CudaContext& context, float* bias, const std::int32_t* counts,
                        std::int64_t experts, double rate) {
  launch<ExpertBiasKernel>(context.queue, {}, {bias, counts, experts, rate});
}

}  // namespace phalanx::cuda
