#include "phalanx/ops/cuda/relative_bias.h"

#include <algorithm>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/relative_bias-inl.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

// The place of key - query = 0, which may lie outside of the line.
std::int64_t zero_place(const RelativeBiasCall& call) {
  return call.queries - 1 + call.first_query;
}

BucketPlan plan_of(const RelativeBiasCall& call) {
  const auto count = static_cast<std::int64_t>(call.bucket_begins.size());
  PHALANX_CHECK(count >= 1 && count <= BucketPlan::kMost, "relative bias: {} buckets of a side",
                count);
  BucketPlan plan{};
  std::copy(call.bucket_begins.begin(), call.bucket_begins.end(), plan.begins);
  plan.of_side = static_cast<int>(count);
  plan.bidirectional = call.bidirectional;
  return plan;
}

}  // namespace

void relative_bias_forward(const CudaContext& context, const RelativeBiasCall& call, float* bias,
                           TypedAddress table) {
  const std::int64_t size = place_differences(call.queries, call.keys);
  auto* lines = reinterpret_cast<float*>(
      take_scratch(context, "relative_bias_forward",
                   relative_bias_forward_scratch_bytes(call.heads, call.queries, call.keys)));
  with_storage("relative_bias_forward", table.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = BiasLineKernel<T>;
    launch<Instance>(context.queue, {ceil_div(size, Instance::kThreads), call.heads},
                     {lines, as<const T>(table), call.table_heads, call.first_head, size,
                      zero_place(call), plan_of(call)});
  });
  const std::int64_t rows = call.heads * call.queries;
  const std::int64_t packs = ceil_div(call.keys, 8);
  const bool packed =
      can_pack(call.keys, TypedAddress{reinterpret_cast<std::byte*>(bias), DType::kF32});
  launch<BiasWindowsKernel>(context.queue, {ceil_div(rows * packs, BiasWindowsKernel::kThreads)},
                            {bias, lines, size, rows, call.queries, call.keys, packs, packed});
}

void relative_bias_backward(const CudaContext& context, const RelativeBiasCall& call, float* dtable,
                            const float* dbias) {
  const std::int64_t size = place_differences(call.queries, call.keys);
  auto* sums = reinterpret_cast<double*>(
      take_scratch(context, "relative_bias_backward",
                   relative_bias_backward_scratch_bytes(call.heads, call.queries, call.keys)));
  launch<BiasDiagonalsKernel>(context.queue,
                              {ceil_div(size, BiasDiagonalsKernel::kThreads), call.heads},
                              {sums, dbias, size, call.queries, call.keys});
  const BucketPlan plan = plan_of(call);
  launch<BucketSumsKernel>(
      context.queue, {std::int64_t{plan.of_side} * (plan.bidirectional ? 2 : 1), call.heads},
      {dtable, sums, call.table_heads, call.first_head, size, zero_place(call), plan});
}

}  // namespace phalanx::cuda
