#include "phalanx/ops/cuda/router.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/router-inl.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

RouterShape shape_of(const RouterCall& call) {
  return {call.rows, static_cast<int>(call.experts), static_cast<int>(call.chosen), call.rule};
}

}  // namespace

void router_forward(const CudaContext& context, const RouterCall& call, ops::RouterChoice choice,
                    float* probabilities, const float* bias) {
  launch<RouterForwardKernel>(context.queue, {ceil_div(call.rows, RouterForwardKernel::kWarps)},
                              {shape_of(call),
                               choice,
                               call.places,
                               probabilities,
                               call.logits,
                               bias,
                               {context.faults, context.op}});
}

void router_backward(const CudaContext& context, const RouterCall& call,
                     const RouterGradientCall& gradient) {
  launch<RouterBackwardKernel>(
      context.queue, {ceil_div(call.rows, RouterBackwardKernel::kWarps)},
      {shape_of(call), gradient.dlogits, gradient.dprobabilities, call.logits, call.places,
       gradient.dscores, gradient.sequences, gradient.z_loss, gradient.scale});
}

void router_capacity(const CudaContext& context, std::int32_t* places, float* probabilities,
                     std::int64_t pairs, std::int64_t experts, std::int64_t capacity,
                     bool by_probability) {
  if (pairs == 0) return;
  launch<RouterCapacityKernel>(context.queue, {experts},
                               {places, probabilities, pairs, capacity, by_probability});
  launch<DroppedZerosKernel>(context.queue, {ceil_div(pairs, DroppedZerosKernel::kThreads)},
                             {places, probabilities, pairs});
}

void sinkhorn_choice(const CudaContext& context, const RouterCall& call) {
  if (call.rows == 0) return;
  auto* c = reinterpret_cast<double*>(
      take_scratch(context, "sinkhorn_choice", sinkhorn_scratch_bytes(call.rows, call.experts)));
  const int experts = static_cast<int>(call.experts);
  launch<SinkhornKernel>(context.queue, {},
                         {c,
                          c + call.rows * call.experts,
                          call.logits,
                          call.rows,
                          experts,
                          ops::kSinkhornRounds,
                          ops::kSinkhornTolerance,
                          ops::kSinkhornEpsilon,
                          {context.faults, context.op}});
  launch<SinkhornChoiceKernel>(context.queue, {ceil_div(call.rows, SinkhornChoiceKernel::kWarps)},
                               {call.places, c, call.rows, experts, static_cast<int>(call.chosen)});
}

}  // namespace phalanx::cuda
