#include "phalanx/ops/cuda/reduce.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/reduce-inl.h"
#include "phalanx/ops/cuda/segment_rows.h"

namespace phalanx::cuda {
namespace {

template <bool kZeros>
void block_terms(const CudaContext& context, const BlockTermsCall& call) {
  launch<BlockTermsKernel<kZeros>>(context.queue, {blocks_of(call.segments)},
                                   {rows_of(call.segments), call.results, call.x,
                                    has_packs(call.segments, call.x, DType::kF32)});
}

}  // namespace

void square_sum_segments(const CudaContext& context, const BlockTermsCall& call) {
  block_terms<false>(context, call);
}

void zero_count_segments(const CudaContext& context, const BlockTermsCall& call) {
  block_terms<true>(context, call);
}

void total_segments(const CudaContext& context, const DeviceSegments& segments, double* totals,
                    const double* x) {
  launch<TotalSegmentsKernel>(context.queue, {static_cast<std::int64_t>(segments.host.size())},
                              {rows_of(segments).rows, totals, x});
}

void total(const CudaContext& context, double* sum, const double* x, std::int64_t n) {
  launch<TotalKernel>(context.queue, {}, {sum, x, n});
}

void gradient_factor(const CudaContext& context, const GradientFactorCall& call) {
  launch<GradientFactorKernel>(
      context.queue, {},
      {call.norm, call.factor, call.skip, call.square_sums, call.n, call.tokens,
       call.expected_tokens, call.loss_scale, call.checked, call.checked_count, call.clip});
}

}  // namespace phalanx::cuda
