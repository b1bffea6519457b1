#include "phalanx/ops/cuda/rotary.h"

#include <algorithm>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/rotary-inl.h"

namespace phalanx::cuda {
namespace {

HeadStrides strides_of(const HeadsOperand& heads) {
  return {heads.row_stride, heads.sample_stride, heads.group_stride, heads.head_stride};
}

bool packs(const HeadsOperand& heads) {
  return can_pack(heads.row_stride, heads.data) && can_pack(heads.sample_stride, heads.data) &&
         can_pack(heads.group_stride, heads.data) && can_pack(heads.head_stride, heads.data);
}

}  // namespace

void rotary_table(const CudaContext& context, const RotaryTableCall& call) {
  using Instance = RotaryTableKernel;
  const auto pairs = static_cast<std::int64_t>(call.frequencies.size());
  for (std::int64_t begin = 0; begin < pairs; begin += Instance::kMostPairs) {
    Instance::Params params{};
    params.table = call.table;
    params.positions = call.positions;
    params.pairs = pairs;
    params.first_pair = begin;
    params.count = std::min<std::int64_t>(pairs - begin, Instance::kMostPairs);
    params.step = static_cast<float>(1.0 / call.interpolation);
    params.factor = static_cast<float>(call.attention_factor);
    for (std::int64_t i = 0; i < params.count; ++i) {
      params.theta[i] = static_cast<float>(call.frequencies[static_cast<std::size_t>(begin + i)]);
    }
    launch<Instance>(context.queue, {ceil_div(call.positions * params.count, Instance::kThreads)},
                     params);
  }
}

void rotate(const CudaContext& context, const RotateCall& call) {
  PHALANX_CHECK(call.y.data.type == call.x.data.type, "rotate: {} to {}", name_of(call.x.data.type),
                name_of(call.y.data.type));
  const std::int64_t pairs = call.dimensions / 2;
  const std::int64_t pair_packs = ceil_div(pairs, 8);
  const bool in_place = call.y.data.at == call.x.data.at;
  const std::int64_t rest = in_place ? 0 : ceil_div(call.width - 2 * pairs, 8);
  // The second half of the pairs begins at an aligned place, too.
  const bool packed = packs(call.x) && packs(call.y) && can_pack(pairs, call.x.data);
  const bool packed_table =
      reinterpret_cast<std::uintptr_t>(call.table) % 16 == 0 && pairs % 4 == 0;
  const std::int64_t rows = call.rows * call.batch;
  const auto run = [&](auto tag, auto interleaved) {
    using T = typename decltype(tag)::Type;
    using Instance = RotateKernel<T, decltype(interleaved)::value>;
    launch<Instance>(
        context.queue,
        {ceil_div(rows * call.groups * call.heads * (pair_packs + rest), Instance::kThreads)},
        {as<T>(call.y.data),
         as<const T>(call.x.data),
         strides_of(call.y),
         strides_of(call.x),
         rows,
         call.batch,
         call.heads,
         call.groups,
         call.width,
         call.position,
         call.position_row_stride,
         call.position_sample_stride,
         call.table,
         call.positions,
         pairs,
         pair_packs,
         pair_packs + rest,
         call.inverse ? -1.0F : 1.0F,
         {context.faults, context.op},
         packed,
         packed_table});
  };
  with_storage("rotate", call.x.data.type, [&](auto tag) {
    if (call.interleaved) {
      run(tag, std::true_type());
    } else {
      run(tag, std::false_type());
    }
  });
}

}  // namespace phalanx::cuda
