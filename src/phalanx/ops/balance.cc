#include "phalanx/ops/balance.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// Counts of every sequence, or of all of them together.
void expect_counts(std::string_view name, const Tensor& counts, std::int64_t sequences,
                   std::int64_t experts) {
  PHALANX_CHECK(counts.shape.rank() == 2, "{}: counts {}", name, counts.shape.to_string());
  const std::int64_t rows = counts.shape[0] == 1 ? 1 : sequences;
  expect_shape(name, "counts", counts, {rows, experts}, DType::kI32);
  expect_contiguous(name, counts);
}

void expect_number(std::string_view name, std::string_view operand, const Tensor& number) {
  expect_shape(name, operand, number, {1}, DType::kF64);
}

}  // namespace

OpCost cost(const BalanceStatistics& op) {
  return memory_cost("balance_statistics", moved(op.logits),
                     moved(op.counts, op.score_sums, op.z_loss));
}
OpCost cost(const BalanceLoss& op) {
  return memory_cost("balance_loss", moved(op.counts, op.score_sums, op.loss), moved(op.loss));
}
OpCost cost(const BalanceGradient& op) {
  return memory_cost("balance_gradient",
                     moved(op.counts, op.scale) + (op.accumulate ? op.dscores.bytes() : 0),
                     moved(op.dscores));
}
OpCost cost(const ExpertCounts& op) {
  return memory_cost("expert_counts", moved(op.experts) + (op.accumulate ? op.counts.bytes() : 0),
                     moved(op.counts));
}
OpCost cost(const ExpertBiasUpdate& op) {
  return memory_cost("expert_bias_update", moved(op.counts, op.bias), moved(op.bias));
}

void balance_statistics(Context& context, const BalanceStatistics& op) {
  expect_full_precision("balance_statistics", "logits", op.logits);
  PHALANX_CHECK(
      op.logits.shape.rank() == 2 && op.score_sums.shape.rank() == 2 && op.score_sums.shape[0] >= 1,
      "balance_statistics: logits {}, score_sums {}", op.logits.shape.to_string(),
      op.score_sums.shape.to_string());
  const std::int64_t experts = op.logits.shape[1];
  PHALANX_CHECK(experts <= kMostExperts && op.chosen >= 1 && op.chosen <= experts &&
                    op.chosen <= kMostChosenExperts,
                "balance_statistics: {} of {} experts", op.chosen, experts);
  const Shape shape{op.score_sums.shape[0], experts};
  expect_shape("balance_statistics", "score_sums", op.score_sums, shape, DType::kF64);
  expect_shape("balance_statistics", "counts", op.counts, shape, DType::kI32);
  if (op.z_loss) expect_number("balance_statistics", "z_loss", op.z_loss);
  expect_contiguous("balance_statistics", op.logits, op.score_sums, op.counts);
  enqueue(context, op);
}

void balance_loss(Context& context, const BalanceLoss& op) {
  PHALANX_CHECK(op.score_sums.shape.rank() == 2, "balance_loss: score_sums {}",
                op.score_sums.shape.to_string());
  expect_dtype("balance_loss", "score_sums", op.score_sums, DType::kF64);
  expect_counts("balance_loss", op.counts, op.score_sums.shape[0], op.score_sums.shape[1]);
  expect_number("balance_loss", "loss", op.loss);
  expect_contiguous("balance_loss", op.score_sums);
  enqueue(context, op);
}

void balance_gradient(Context& context, const BalanceGradient& op) {
  PHALANX_CHECK(op.dscores.shape.rank() == 2, "balance_gradient: dscores {}",
                op.dscores.shape.to_string());
  expect_full_precision("balance_gradient", "dscores", op.dscores);
  expect_counts("balance_gradient", op.counts, op.dscores.shape[0], op.dscores.shape[1]);
  expect_full_precision("balance_gradient", "scale", op.scale, {1});
  expect_contiguous("balance_gradient", op.dscores);
  enqueue(context, op);
}

void expert_counts(Context& context, const ExpertCounts& op) {
  PHALANX_CHECK(op.counts.shape.rank() == 1 && op.counts.shape[0] <= kMostExperts &&
                    op.experts.shape.rank() == 2,
                "expert_counts: counts {}, experts {}", op.counts.shape.to_string(),
                op.experts.shape.to_string());
  expect_dtype("expert_counts", "counts", op.counts, DType::kI32);
  expect_dtype("expert_counts", "experts", op.experts, DType::kI32);
  expect_contiguous("expert_counts", op.counts, op.experts);
  enqueue(context, op);
}

void expert_bias_update(Context& context, const ExpertBiasUpdate& op) {
  PHALANX_CHECK(op.bias.shape.rank() == 1, "expert_bias_update: bias {}",
                op.bias.shape.to_string());
  expect_full_precision("expert_bias_update", "bias", op.bias);
  expect_shape("expert_bias_update", "counts", op.counts, op.bias.shape, DType::kI32);
  expect_contiguous("expert_bias_update", op.bias, op.counts);
  enqueue(context, op);
}

}  // namespace phalanx::ops
