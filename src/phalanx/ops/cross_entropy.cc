#include "phalanx/ops/cross_entropy.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const CrossEntropy& op) {
  return {"cross_entropy", 0, bytes_of(op.logits, op.targets), bytes_of(op.loss, op.dlogits)};
}
OpCost cost(const LossSeed& op) {
  return {"loss_seed", 0, bytes_of(op.loss_scale, op.mask), bytes_of(op.seed)};
}
OpCost cost(const LossAccumulate& op) {
  return {"loss_accumulate", 0, bytes_of(op.loss, op.mask), bytes_of(op.sum, op.count)};
}

void cross_entropy(Context& context, const CrossEntropy& op) {
  const auto rows = op.logits.shape[0];
  expect_shape("cross_entropy", "loss", op.loss, {rows});
  expect_shape("cross_entropy", "targets", op.targets, {rows});
  expect_dtype("cross_entropy", "targets", op.targets, DType::kI32);
  PHALANX_CHECK(op.vocabulary >= 1 && op.vocabulary <= op.logits.shape[1],
                "cross_entropy: vocabulary {} of {} columns", op.vocabulary, op.logits.shape[1]);
  if (op.dlogits) {
    expect_shape("cross_entropy", "dlogits", op.dlogits, op.logits.shape);
    expect_shape("cross_entropy", "mask", op.mask, {rows});
    expect_shape("cross_entropy", "seed", op.seed, {1});
  }
  enqueue(context, op);
}

void loss_seed(Context& context, const LossSeed& op) {
  expect_shape("loss_seed", "seed", op.seed, {1});
  expect_shape("loss_seed", "loss_scale", op.loss_scale, {1});
  enqueue(context, op);
}

void loss_accumulate(Context& context, const LossAccumulate& op) {
  expect_shape("loss_accumulate", "sum", op.sum, {1});
  expect_shape("loss_accumulate", "count", op.count, {1});
  expect_shape("loss_accumulate", "mask", op.mask, op.loss.shape);
  expect_dtype("loss_accumulate", "sum", op.sum, DType::kF64);
  expect_dtype("loss_accumulate", "count", op.count, DType::kF64);
  enqueue(context, op);
}

}  // namespace phalanx::ops
