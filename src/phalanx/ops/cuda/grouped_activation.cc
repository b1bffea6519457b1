#include "phalanx/ops/cuda/grouped_activation.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/grouped_activation-inl.h"

namespace phalanx::cuda {
namespace {

template <typename T, typename... Results>
GroupedActivationOperands<T> operands_of(const GroupedActivationCall& call,
                                         const Results&... others) {
  const auto check = [&](const TypedRows& rows) {
    PHALANX_CHECK(!rows || rows.data.type == call.x.data.type, "grouped_activation: {} beside {}",
                  name_of(rows.data.type), name_of(call.x.data.type));
  };
  (check(others), ...);
  check(call.bias);
  // The second half of gated rows begins at an aligned place, too.
  const bool packed = can_pack(call.columns, call.x.data) && can_pack(call.x) &&
                      can_pack(call.bias) && (can_pack(others) && ...);
  return {as<const T>(call.x.data),
          as<const T>(call.bias.data),
          call.probabilities,
          call.x.stride,
          call.bias.stride,
          call.columns,
          {call.groups.offsets, call.groups.groups, call.groups.rows},
          static_cast<Activation>(call.kind),
          call.gated,
          packed};
}

}  // namespace

void grouped_activation_forward(const CudaContext& context, const GroupedActivationCall& call,
                                const TypedRows& y) {
  const std::int64_t packs = ceil_div(call.columns, 8);
  if (packs == 0) return;
  with_storage("grouped_activation_forward", y.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedActivationForwardKernel<T>;
    launch<Instance>(context.queue, {ceil_div(call.groups.rows * packs, Instance::kThreads)},
                     {operands_of<T>(call, y), as<T>(y.data), y.stride, packs});
  });
}

void grouped_activation_backward(const CudaContext& context, const GroupedActivationCall& call,
                                 const TypedRows& dx, const TypedRows& dy, float* dprobabilities) {
  with_storage("grouped_activation_backward", dy.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedActivationBackwardKernel<T>;
    launch<Instance>(context.queue, {ceil_div(call.groups.rows, Instance::kRows)},
                     {operands_of<T>(call, dx, dy), as<T>(dx.data), dprobabilities,
                      as<const T>(dy.data), dx.stride, dy.stride});
  });
}

}  // namespace phalanx::cuda
