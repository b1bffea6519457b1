#include "phalanx/ops/dropout.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {

OpCost cost(const BiasDropoutResidual& op) {
  return memory_cost("bias_dropout_residual", moved(op.x, op.bias, op.residual), moved(op.out));
}
OpCost cost(const DropoutBackward& op) {
  return memory_cost("dropout_backward", moved(op.dout), moved(op.dx));
}

OpCost cost(const Jitter& op) { return memory_cost("jitter", moved(op.x), moved(op.y)); }

void bias_dropout_residual(Context& context, const BiasDropoutResidual& op) {
  expect_shape("bias_dropout_residual", "out", op.out, op.x.shape);
  expect_shape("bias_dropout_residual", "residual", op.residual, op.x.shape, op.out.dtype);
  expect_floating("bias_dropout_residual", "x", op.x);
  expect_stream("bias_dropout_residual", "out", op.out, op.x.dtype);
  if (op.bias) {
    expect_shape("bias_dropout_residual", "bias", op.bias, {op.x.shape[2]}, op.x.dtype);
  }
  expect_dense_rows("bias_dropout_residual", op.out, op.x, op.residual, op.bias);
  expect_dropout("bias_dropout_residual", op.dropout, op.rows, op.x.shape[0], op.x.shape[1]);
  enqueue(context, op);
}

void dropout_backward(Context& context, const DropoutBackward& op) {
  expect_shape("dropout_backward", "dx", op.dx, op.dout.shape);
  expect_floating("dropout_backward", "dx", op.dx);
  expect_stream("dropout_backward", "dout", op.dout, op.dx.dtype);
  expect_dense_rows("dropout_backward", op.dx, op.dout);
  expect_dropout("dropout_backward", op.dropout, op.rows, op.dout.shape[0], op.dout.shape[1]);
  enqueue(context, op);
}

void jitter(Context& context, const Jitter& op) {
  expect_full_precision("jitter", "x", op.x);
  expect_shape("jitter", "y", op.y, op.x.shape, op.x.dtype);
  expect_contiguous("jitter", op.x, op.y);
  expect_rows("jitter", op.rows, op.x.shape[0], op.x.shape[1]);
  expect_contiguous("jitter", op.rows.sample, op.rows.position);
  PHALANX_CHECK(op.epsilon >= 0.0 && op.epsilon < 1.0, "jitter: epsilon {}", op.epsilon);
  enqueue(context, op);
}

}  // namespace phalanx::ops
