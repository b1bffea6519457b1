#include "phalanx/ops/cross_entropy.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

void expect_targets(std::string_view op, const Tensor& targets, std::int64_t rows) {
  expect_shape(op, "targets", targets, {rows}, DType::kI32);
  expect_contiguous(op, targets);
}

void expect_columns(std::string_view op, std::int64_t first_column, std::int64_t vocabulary) {
  PHALANX_CHECK(first_column >= 0 && vocabulary >= 1,
                "{}: columns from {} on of a vocabulary of {}", op, first_column, vocabulary);
}

void expect_mask(std::string_view op, const Tensor& mask, std::int64_t rows) {
  expect_full_precision(op, "mask", mask, {rows});
  expect_contiguous(op, mask);
}

// The mask, and what comes with dlogits.
template <typename Op>
void expect_gradient_operands(std::string_view name, const Op& op) {
  if (op.mask || op.dlogits) expect_mask(name, op.mask, op.logits.shape[0]);
  if (!op.dlogits) return;
  expect_shape(name, "dlogits", op.dlogits, op.logits.shape);
  expect_full_precision(name, "seed", op.seed, {1});
  expect_floating(name, "dlogits", op.dlogits);
  const bool is_full = op.logits.dtype == DType::kF32 || op.logits.dtype == DType::kF64;
  PHALANX_CHECK(is_full || op.dlogits.dtype == op.logits.dtype,
                "{}: dlogits of {}, logits of {}: give both one type, or logits in full precision",
                name, name_of(op.dlogits.dtype), name_of(op.logits.dtype));
  expect_dense_rows(name, op.dlogits);
}

}  // namespace

OpCost cost(const CrossEntropy& op) {
  return memory_cost("cross_entropy", moved(op.logits, op.targets), moved(op.loss, op.dlogits));
}
OpCost cost(const CrossEntropyStatistics& op) {
  return memory_cost("cross_entropy_statistics", moved(op.logits, op.targets),
                     moved(op.statistics));
}
OpCost cost(const VocabularyParallelCrossEntropy& op) {
  const std::int64_t logits = op.dlogits ? bytes_of(op.logits) : 0;
  return memory_cost("vocabulary_parallel_cross_entropy", logits + moved(op.statistics, op.targets),
                     moved(op.loss, op.dlogits));
}
OpCost cost(const LabelMask& op) {
  return memory_cost("label_mask", moved(op.labels), moved(op.mask));
}
OpCost cost(const LossSeed& op) {
  return memory_cost("loss_seed", moved(op.loss_scale, op.mask), moved(op.seed));
}
OpCost cost(const LossAccumulate& op) {
  return memory_cost("loss_accumulate", moved(op.loss, op.mask), moved(op.sum, op.count));
}

void cross_entropy(Context& context, const CrossEntropy& op) {
  const auto rows = op.logits.shape[0];
  expect_full_precision("cross_entropy", "loss", op.loss, {rows});
  expect_floating("cross_entropy", "logits", op.logits);
  expect_dense_rows("cross_entropy", op.logits);
  expect_contiguous("cross_entropy", op.loss);
  expect_targets("cross_entropy", op.targets, rows);
  PHALANX_CHECK(op.vocabulary >= 1 && op.vocabulary <= op.logits.shape[1],
                "cross_entropy: vocabulary {} of {} columns", op.vocabulary, op.logits.shape[1]);
  expect_gradient_operands("cross_entropy", op);
  enqueue(context, op);
}

void cross_entropy_statistics(Context& context, const CrossEntropyStatistics& op) {
  constexpr std::string_view kName = "cross_entropy_statistics";
  const auto rows = op.logits.shape[0];
  expect_floating(kName, "logits", op.logits);
  expect_full_precision(kName, "statistics", op.statistics, {3, rows});
  expect_contiguous(kName, op.statistics);
  expect_dense_rows(kName, op.logits);
  expect_columns(kName, op.first_column, op.vocabulary);
  expect_targets(kName, op.targets, rows);
  if (op.mask) expect_mask(kName, op.mask, rows);
  enqueue(context, op);
}

void vocabulary_parallel_cross_entropy(Context& context, const VocabularyParallelCrossEntropy& op) {
  constexpr std::string_view kName = "vocabulary_parallel_cross_entropy";
  const auto rows = op.logits.shape[0];
  expect_full_precision(kName, "statistics", op.statistics, {op.statistics.shape[0], 3, rows});
  expect_contiguous(kName, op.statistics, op.loss);
  expect_dense_rows(kName, op.logits);
  expect_columns(kName, op.first_column, op.vocabulary);
  expect_floating(kName, "logits", op.logits);
  expect_full_precision(kName, "loss", op.loss, {rows});
  expect_targets(kName, op.targets, rows);
  expect_gradient_operands(kName, op);
  enqueue(context, op);
}

void label_mask(Context& context, const LabelMask& op) {
  expect_targets("label_mask", op.labels, op.labels.shape[0]);
  expect_mask("label_mask", op.mask, op.labels.shape[0]);
  enqueue(context, op);
}

void loss_seed(Context& context, const LossSeed& op) {
  expect_full_precision("loss_seed", "seed", op.seed, {1});
  expect_full_precision("loss_seed", "loss_scale", op.loss_scale, {1});
  if (op.mask) expect_full_precision("loss_seed", "mask", op.mask);
  expect_contiguous("loss_seed", op.mask);
  enqueue(context, op);
}

void loss_accumulate(Context& context, const LossAccumulate& op) {
  expect_shape("loss_accumulate", "sum", op.sum, {1}, DType::kF64);
  expect_shape("loss_accumulate", "count", op.count, {1}, DType::kF64);
  expect_full_precision("loss_accumulate", "mask", op.mask, op.loss.shape);
  expect_full_precision("loss_accumulate", "loss", op.loss);
  expect_contiguous("loss_accumulate", op.loss, op.mask);
  enqueue(context, op);
}

}  // namespace phalanx::ops
