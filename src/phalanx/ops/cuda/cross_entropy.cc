#include "phalanx/ops/cuda/cross_entropy.h"

#include <algorithm>

#include "phalanx/ops/cuda/cross_entropy-inl.h"
#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/loss-inl.h"

namespace phalanx::cuda {
namespace {

// A warp has a row of so many columns.
constexpr std::int64_t kWarpColumns = 1024;

LogitShape shape_of(const CrossEntropyCall& call) {
  return {call.rows,
          call.columns,
          call.logits.stride,
          std::clamp<std::int64_t>(call.vocabulary - call.first_column, 0, call.columns),
          call.first_column,
          call.vocabulary,
          can_pack(call.logits) && can_pack(call.dlogits)};
}

LogitTargets targets_of(const CudaContext& context, const CrossEntropyCall& call) {
  return {call.targets, call.mask, {context.faults, context.op}};
}

// Calls use(TypeTag<From>(), TypeTag<To>()): the logits have the gradient's type, or are f32.
template <typename Use>
void with_logits(std::string_view op, const CrossEntropyCall& call, const Use& use) {
  const DType logits = call.logits.data.type;
  with_stream(op, call.dlogits ? call.dlogits.data.type : logits, logits,
              [&](auto to, auto from) { use(from, to); });
}

// Calls use(the threads of a team).
template <typename Use>
void with_team(std::int64_t columns, const Use& use) {
  if (columns <= kWarpColumns) {
    use(std::integral_constant<int, 32>());
  } else {
    use(std::integral_constant<int, 512>());
  }
}

}  // namespace

void cross_entropy(const CudaContext& context, const CrossEntropyCall& call) {
  PHALANX_CHECK(call.first_column == 0 && call.vocabulary <= call.columns,
                "cross_entropy: a vocabulary of {} from column {} on in {}", call.vocabulary,
                call.first_column, call.columns);
  with_logits("cross_entropy", call, [&](auto from, auto to) {
    with_team(call.columns, [&](auto team) {
      using From = typename decltype(from)::Type;
      using To = typename decltype(to)::Type;
      using Instance = CrossEntropyKernel<From, To, decltype(team)::value>;
      launch<Instance>(
          context.queue, {ceil_div(call.rows, Instance::kRows)},
          {shape_of(call), targets_of(context, call), call.loss, as<To>(call.dlogits.data),
           call.dlogits.stride, as<const From>(call.logits.data), call.seed});
    });
  });
}

void cross_entropy_statistics(const CudaContext& context, const CrossEntropyCall& call,
                              float* statistics) {
  with_storage("cross_entropy_statistics", call.logits.data.type, [&](auto from) {
    with_team(call.columns, [&](auto team) {
      using From = typename decltype(from)::Type;
      using Instance = StatisticsKernel<From, decltype(team)::value>;
      launch<Instance>(context.queue, {ceil_div(call.rows, Instance::kRows)},
                       {shape_of(call), targets_of(context, call), statistics,
                        as<const From>(call.logits.data)});
    });
  });
}

void vocabulary_parallel_cross_entropy(const CudaContext& context, const CrossEntropyCall& call,
                                       const float* statistics, std::int64_t ranks) {
  with_logits("vocabulary_parallel_cross_entropy", call, [&](auto from, auto to) {
    using From = typename decltype(from)::Type;
    using To = typename decltype(to)::Type;
    launch<PartCrossEntropyKernel<From, To>>(
        context.queue, {call.rows},
        {shape_of(call), targets_of(context, call), call.loss, as<To>(call.dlogits.data),
         call.dlogits.stride, as<const From>(call.logits.data), call.seed, statistics, ranks});
  });
}

void label_mask(const CudaContext& context, float* mask, const std::int32_t* labels,
                std::int64_t rows) {
  launch<LabelMaskKernel>(context.queue, {ceil_div(rows, LabelMaskKernel::kThreads)},
                          {mask, labels, rows});
}

void loss_seed(const CudaContext& context, float* seed, const float* loss_scale, const float* mask,
               std::int64_t rows, double factor) {
  launch<LossSeedKernel>(context.queue, {}, {seed, loss_scale, mask, rows, factor});
}

void loss_accumulate(const CudaContext& context, double* sum, double* count, const float* loss,
                     const float* mask, std::int64_t rows) {
  launch<LossAccumulateKernel>(context.queue, {}, {sum, count, loss, mask, rows});
}

}  // namespace phalanx::cuda
