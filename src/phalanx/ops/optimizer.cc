#include "phalanx/ops/optimizer.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const Adam& op) {
  return {"adam", 0, bytes_of(op.weight, op.gradient, op.exp_avg, op.exp_avg_sq),
          bytes_of(op.weight, op.storage, op.exp_avg, op.exp_avg_sq)};
}

void adam(Context& context, const Adam& op) {
  for (const Tensor* operand : {&op.gradient, &op.exp_avg, &op.exp_avg_sq}) {
    expect_shape("adam", "a state", *operand, op.weight.shape);
    expect_full_precision("adam", "a state", *operand);
  }
  expect_full_precision("adam", "weight", op.weight);
  if (op.storage) {
    expect_shape("adam", "storage", op.storage, op.weight.shape);
    expect_floating("adam", "storage", op.storage);
  }
  for (const Tensor* one : {&op.factor, &op.skip}) {
    expect_shape("adam", "a scalar", *one, {1});
    expect_full_precision("adam", "a scalar", *one);
  }
  PHALANX_CHECK(op.step >= 1, "adam: step {}", op.step);
  enqueue(context, op);
}

}  // namespace phalanx::ops
