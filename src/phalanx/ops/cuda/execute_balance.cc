#include "phalanx/ops/cuda/balance.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {

void execute(const CudaContext& context, const ops::BalanceStatistics& op) {
  balance_statistics(context, {.rows = op.logits.shape[0],
                               .sequences = op.counts.shape[0],
                               .experts = op.logits.shape[1],
                               .chosen = op.chosen,
                               .score = op.score,
                               .logits = address_as<float>(op.logits),
                               .counts = address_as<std::int32_t>(op.counts),
                               .score_sums = address_as<double>(op.score_sums),
                               .z_loss = address_as<double>(op.z_loss),
                               .z_factor = op.z_factor});
}

void execute(const CudaContext& context, const ops::BalanceLoss& op) {
  balance_loss(context, address_as<double>(op.loss), address_as<std::int32_t>(op.counts),
               op.counts.count(), address_as<double>(op.score_sums), op.score_sums.count(),
               op.factor);
}

void execute(const CudaContext& context, const ops::BalanceGradient& op) {
  balance_gradient(context, address_as<float>(op.dscores), op.dscores.count(),
                   address_as<std::int32_t>(op.counts), op.counts.count(),
                   address_as<float>(op.scale), op.factor, op.accumulate);
}

void execute(const CudaContext& context, const ops::ExpertCounts& op) {
  expert_counts(context, address_as<std::int32_t>(op.counts), op.counts.count(),
                address_as<std::int32_t>(op.experts), op.experts.count(), op.accumulate);
}

void execute(const CudaContext& context, const ops::ExpertBiasUpdate& op) {
  expert_bias_update(context, address_as<float>(op.bias), address_as<std::int32_t>(op.counts),
                     op.bias.count(), op.rate);
}

}  // namespace phalanx::cuda
