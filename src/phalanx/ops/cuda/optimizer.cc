#include "phalanx/ops/cuda/optimizer.h"

#include <cstring>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/optimizer-inl.h"

namespace phalanx::cuda {
namespace {

template <typename T>
OptimizerCommon<T> common_of(const OptimizerCall& call, bool packed) {
  return {reinterpret_cast<const OptimizerSegment*>(call.segments),
          call.table->count,
          call.settings,
          call.factor,
          call.skip,
          call.weight,
          as<T>(call.storage),
          call.gradient,
          packed};
}

template <typename... Addresses>
bool aligned(const OptimizerCall& call, const Addresses*... addresses) {
  const auto fits = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return call.table->aligned && fits(call.weight) && fits(call.storage.at) && fits(call.gradient) &&
         (fits(addresses) && ...);
}

}  // namespace

SegmentTable make_segment_table(std::span<const SegmentRange> ranges) {
  SegmentTable table;
  std::vector<OptimizerSegment> segments;
  for (const SegmentRange& range : ranges) {
    if (range.count == 0) continue;
    segments.push_back({range.begin, range.count, table.blocks, range.group, 0});
    table.blocks += ceil_div(range.count, kOptimizerBlock);
    table.aligned = table.aligned && range.begin % 8 == 0;
  }
  table.count = static_cast<std::int64_t>(segments.size());
  table.bytes.resize(segments.size() * sizeof(OptimizerSegment));
  if (!segments.empty()) std::memcpy(table.bytes.data(), segments.data(), table.bytes.size());
  return table;
}

void adam_segments(const CudaContext& context, const AdamCall& call) {
  const bool packed = aligned(call.common, call.exp_avg, call.exp_avg_sq);
  with_storage("adam", call.common.storage ? call.common.storage.type : DType::kF32, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<AdamKernel<T>>(context.queue, {call.common.table->blocks},
                          {common_of<T>(call.common, packed), call.exp_avg, call.exp_avg_sq,
                           call.corrections, static_cast<float>(call.beta1),
                           static_cast<float>(call.beta2), static_cast<float>(1.0 - call.beta1),
                           static_cast<float>(1.0 - call.beta2), static_cast<float>(call.epsilon)});
  });
}

void sgd_segments(const CudaContext& context, const SgdCall& call) {
  const bool packed = aligned(call.common, call.momentum_buffer);
  with_storage("sgd", call.common.storage ? call.common.storage.type : DType::kF32, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<SgdKernel<T>>(context.queue, {call.common.table->blocks},
                         {common_of<T>(call.common, packed), call.momentum_buffer,
                          static_cast<float>(call.momentum)});
  });
}

}  // namespace phalanx::cuda
