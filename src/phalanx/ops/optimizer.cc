#include "phalanx/ops/optimizer.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

// What all updates have.
template <typename Op>
void expect_update(const char* name, const Op& op) {
  expect_full_precision(name, "gradient", op.gradient, op.weight.shape);
  expect_full_precision(name, "weight", op.weight);
  if (op.storage) {
    expect_shape(name, "storage", op.storage, op.weight.shape);
    expect_floating(name, "storage", op.storage);
  }
  for (const Tensor* one : {&op.factor, &op.skip}) {
    expect_full_precision(name, "a scalar", *one, {1});
  }
  expect_contiguous(name, op.weight, op.storage, op.gradient);
}

void expect_state(const char* name, const Tensor& state, const Tensor& weight) {
  expect_full_precision(name, "a state", state, weight.shape);
  expect_contiguous(name, state);
}

}  // namespace

OpCost cost(const Adam& op) {
  return {"adam", 0, bytes_of(op.weight, op.gradient, op.exp_avg, op.exp_avg_sq),
          bytes_of(op.weight, op.storage, op.exp_avg, op.exp_avg_sq)};
}
OpCost cost(const Sgd& op) {
  return {"sgd", 0, bytes_of(op.weight, op.gradient, op.momentum_buffer),
          bytes_of(op.weight, op.storage, op.momentum_buffer)};
}

void adam(Context& context, const Adam& op) {
  expect_update("adam", op);
  expect_state("adam", op.exp_avg, op.weight);
  expect_state("adam", op.exp_avg_sq, op.weight);
  PHALANX_CHECK(op.step >= 1, "adam: step {}", op.step);
  enqueue(context, op);
}

void sgd(Context& context, const Sgd& op) {
  expect_update("sgd", op);
  if (op.momentum_buffer) expect_state("sgd", op.momentum_buffer, op.weight);
  PHALANX_CHECK(op.momentum_buffer || op.momentum == 0.0, "sgd: momentum {} without a buffer",
                op.momentum);
  enqueue(context, op);
}

}  // namespace phalanx::ops
