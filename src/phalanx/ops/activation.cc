#include "phalanx/ops/activation.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

void expect_types(std::string_view op, const Tensor& x, const Tensor& bias) {
  expect_floating(op, "x", x);
  if (!bias) return;
  expect_shape(op, "bias", bias, {x.shape[1]});
  expect_dtype(op, "bias", bias, x.dtype);
}

}  // namespace

OpCost cost(const BiasActivationForward& op) {
  return {"bias_activation_forward", 0, bytes_of(op.x, op.bias), bytes_of(op.y)};
}
OpCost cost(const BiasActivationBackward& op) {
  return {"bias_activation_backward", 0, bytes_of(op.dy, op.x, op.bias), bytes_of(op.dx)};
}

OpCost cost(const TanhForward& op) { return {"tanh_forward", 0, bytes_of(op.x), bytes_of(op.y)}; }
OpCost cost(const TanhBackward& op) {
  return {"tanh_backward", 0, bytes_of(op.dy, op.y), bytes_of(op.dx)};
}

void bias_activation_forward(Context& context, const BiasActivationForward& op) {
  expect_shape("bias_activation_forward", "y", op.y, op.x.shape);
  expect_types("bias_activation_forward", op.x, op.bias);
  expect_dtype("bias_activation_forward", "y", op.y, op.x.dtype);
  enqueue(context, op);
}

void bias_activation_backward(Context& context, const BiasActivationBackward& op) {
  expect_shape("bias_activation_backward", "dx", op.dx, op.x.shape);
  expect_shape("bias_activation_backward", "dy", op.dy, op.x.shape);
  expect_types("bias_activation_backward", op.x, op.bias);
  expect_dtype("bias_activation_backward", "dx", op.dx, op.x.dtype);
  expect_dtype("bias_activation_backward", "dy", op.dy, op.x.dtype);
  enqueue(context, op);
}

void tanh_forward(Context& context, const TanhForward& op) {
  expect_shape("tanh_forward", "y", op.y, op.x.shape);
  expect_floating("tanh_forward", "x", op.x);
  expect_dtype("tanh_forward", "y", op.y, op.x.dtype);
  expect_contiguous("tanh_forward", "x", op.x);
  expect_contiguous("tanh_forward", "y", op.y);
  enqueue(context, op);
}

void tanh_backward(Context& context, const TanhBackward& op) {
  expect_shape("tanh_backward", "dx", op.dx, op.y.shape);
  expect_shape("tanh_backward", "dy", op.dy, op.y.shape);
  expect_floating("tanh_backward", "y", op.y);
  expect_dtype("tanh_backward", "dx", op.dx, op.y.dtype);
  expect_dtype("tanh_backward", "dy", op.dy, op.y.dtype);
  expect_contiguous("tanh_backward", "dx", op.dx);
  expect_contiguous("tanh_backward", "dy", op.dy);
  expect_contiguous("tanh_backward", "y", op.y);
  enqueue(context, op);
}

}  // namespace phalanx::ops
