#include "phalanx/ops/reduce.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const SquareSum& op) { return {"square_sum", 0, bytes_of(op.x), bytes_of(op.sum)}; }
OpCost cost(const GradientFactor& op) {
  return {"gradient_factor", 0, bytes_of(op.square_sums, op.tokens, op.loss_scale),
          bytes_of(op.norm, op.factor, op.skip)};
}

void square_sum(Context& context, const SquareSum& op) {
  expect_shape("square_sum", "sum", op.sum, {1});
  expect_dtype("square_sum", "sum", op.sum, DType::kF64);
  expect_contiguous("square_sum", "x", op.x);
  enqueue(context, op);
}

void gradient_factor(Context& context, const GradientFactor& op) {
  for (const Tensor* one : {&op.norm, &op.factor, &op.skip, &op.loss_scale}) {
    expect_shape("gradient_factor", "a scalar", *one, {1});
  }
  expect_dtype("gradient_factor", "square_sums", op.square_sums, DType::kF64);
  enqueue(context, op);
}

}  // namespace phalanx::ops
