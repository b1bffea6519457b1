#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/router.h"

namespace phalanx::cuda {
namespace {

template <typename Op>
RouterCall call_of(const Op& op, const ops::RouterRule& rule) {
  return {.rows = op.logits.shape[0],
          .experts = op.logits.shape[1],
          .chosen = op.experts.shape[1],
          .rule = rule,
          .logits = address_as<float>(op.logits),
          .places = address_as<std::int32_t>(op.experts)};
}

}  // namespace

void execute(const CudaContext& context, const ops::RouterForward& op) {
  router_forward(context, call_of(op, op.rule), op.choice, address_as<float>(op.probabilities),
                 address_as<float>(op.bias));
}

void execute(const CudaContext& context, const ops::RouterBackward& op) {
  router_backward(context, call_of(op, op.rule),
                  {.dlogits = address_as<float>(op.dlogits),
                   .dprobabilities = address_as<float>(op.dprobabilities),
                   .dscores = address_as<float>(op.dscores),
                   .sequences = op.dscores ? op.dscores.shape[0] : 1,
                   .z_loss = op.z_loss,
                   .scale = address_as<float>(op.scale)});
}

void execute(const CudaContext& context, const ops::RouterCapacity& op) {
  router_capacity(context, address_as<std::int32_t>(op.experts),
                  address_as<float>(op.probabilities), op.experts.count(), op.all_experts,
                  op.capacity, op.policy == ops::DropPolicy::kProbability);
}

void execute(const CudaContext& context, const ops::SinkhornChoice& op) {
  sinkhorn_choice(context, call_of(op, {}));
}

}  // namespace phalanx::cuda
