#include "phalanx/ops/cuda/reduce.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/reduce-inl.h"

namespace phalanx::cuda {
namespace {

template <bool kZeros>
void block_terms(const CudaContext& context, double* sums, const float* x, std::int64_t n,
                 std::int64_t lead) {
  using Instance = BlockTermsKernel<kZeros>;
  PHALANX_CHECK(lead >= 0 && lead < Instance::kBlock, "square_sum: a lead of {}", lead);
  const bool packed = reinterpret_cast<std::uintptr_t>(x - lead) % 16 == 0;
  launch<Instance>(context.queue, {ceil_div(lead + n, Instance::kBlock)},
                   {sums, x, n, lead, packed});
}

}  // namespace

void square_sum(const CudaContext& context, double* sums, const float* x, std::int64_t n,
                std::int64_t lead) {
  block_terms<false>(context, sums, x, n, lead);
}

void zero_count(const CudaContext& context, double* counts, const float* x, std::int64_t n,
                std::int64_t lead) {
  block_terms<true>(context, counts, x, n, lead);
}

void total(const CudaContext& context, double* sum, const double* x, std::int64_t n) {
  launch<TotalKernel>(context.queue, {}, {sum, x, n});
}

void gradient_factor(const CudaContext& context, const GradientFactorCall& call) {
  launch<GradientFactorKernel>(context.queue, {},
                               {call.norm, call.factor, call.skip, call.square_sums, call.n,
                                call.tokens, call.loss_scale, call.expected_tokens, call.clip});
}

}  // namespace phalanx::cuda
