#include "phalanx/ops/activation.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

OpCost cost(const BiasGeluForward& op) {
  return {"bias_gelu_forward", 0, bytes_of(op.x, op.bias), bytes_of(op.y)};
}
OpCost cost(const BiasGeluBackward& op) {
  return {"bias_gelu_backward", 0, bytes_of(op.dy, op.x, op.bias), bytes_of(op.dx)};
}

void bias_gelu_forward(Context& context, const BiasGeluForward& op) {
  expect_shape("bias_gelu_forward", "y", op.y, op.x.shape);
  if (op.bias) expect_shape("bias_gelu_forward", "bias", op.bias, {op.x.shape[1]});
  enqueue(context, op);
}

void bias_gelu_backward(Context& context, const BiasGeluBackward& op) {
  expect_shape("bias_gelu_backward", "dx", op.dx, op.x.shape);
  expect_shape("bias_gelu_backward", "dy", op.dy, op.x.shape);
  if (op.bias) expect_shape("bias_gelu_backward", "bias", op.bias, {op.x.shape[1]});
  enqueue(context, op);
}

}  // namespace phalanx::ops
