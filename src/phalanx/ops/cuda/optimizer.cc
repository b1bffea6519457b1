#include "phalanx/ops/cuda/optimizer.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/optimizer-inl.h"
#include "phalanx/ops/cuda/segment_rows.h"

namespace phalanx::cuda {
namespace {

template <typename T>
OptimizerCommon<T> common_of(const OptimizerCall& call, bool packed) {
  return {rows_of(call.segments), call.settings, call.factor, call.skip, call.weight,
          as<T>(call.storage),    call.gradient, packed};
}

// `states`: of the rule; those that are null do not count.
template <typename... States>
bool has_packs(const OptimizerCall& call, const States*... states) {
  const auto fits = [&call](const void* at, DType type) {
    return at == nullptr || has_packs(call.segments, at, type);
  };
  return fits(call.weight, DType::kF32) && fits(call.gradient, DType::kF32) &&
         fits(call.storage.at, call.storage.type) && (fits(states, DType::kF32) && ...);
}

}  // namespace

void adam_segments(const CudaContext& context, const AdamCall& call) {
  const bool packed = has_packs(call.common, call.exp_avg, call.exp_avg_sq);
  with_storage("adam", call.common.storage ? call.common.storage.type : DType::kF32, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<AdamKernel<T>>(context.queue, {blocks_of(call.common.segments)},
                          {common_of<T>(call.common, packed), call.exp_avg, call.exp_avg_sq,
                           call.corrections, static_cast<float>(call.beta1),
                           static_cast<float>(call.beta2), static_cast<float>(1.0 - call.beta1),
                           static_cast<float>(1.0 - call.beta2), static_cast<float>(call.epsilon)});
  });
}

void sgd_segments(const CudaContext& context, const SgdCall& call) {
  const bool packed = has_packs(call.common, call.momentum_buffer);
  with_storage("sgd", call.common.storage ? call.common.storage.type : DType::kF32, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<SgdKernel<T>>(context.queue, {blocks_of(call.common.segments)},
                         {common_of<T>(call.common, packed), call.momentum_buffer,
                          static_cast<float>(call.momentum)});
  });
}

}  // namespace phalanx::cuda
