#include "phalanx/ops/activation.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

void expect_types(std::string_view op, const Tensor& x, const Tensor& bias) {
  expect_floating(op, "x", x);
  expect_dense_rows(op, x);
  if (!bias) return;
  expect_contiguous(op, bias);
  expect_shape(op, "bias", bias, {x.shape[1]}, x.dtype);
}

// Rows of half the width of x.
void expect_half(std::string_view op, std::string_view operand, const Tensor& half,
                 const Tensor& x) {
  PHALANX_CHECK(x.shape[1] % 2 == 0, "{}: x is {}, expected gates and as many others", op,
                x.shape.to_string());
  expect_shape(op, operand, half, {x.shape[0], x.shape[1] / 2}, x.dtype);
  expect_dense_rows(op, half);
}

}  // namespace

std::string_view name_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return "tanh GeLU";
    case ActivationKind::kGeluErf:
      return "erf GeLU";
    case ActivationKind::kRelu:
      return "ReLU";
    case ActivationKind::kSquaredRelu:
      return "squared ReLU";
    case ActivationKind::kSilu:
      break;
  }
  return "SiLU";
}

OpCost cost(const BiasActivationForward& op) {
  return memory_cost("bias_activation_forward", moved(op.x, op.bias), moved(op.y));
}
OpCost cost(const BiasActivationBackward& op) {
  return memory_cost("bias_activation_backward", moved(op.dy, op.x, op.bias), moved(op.dx));
}

OpCost cost(const GatedActivationForward& op) {
  return memory_cost("gated_activation_forward", moved(op.x, op.bias), moved(op.y));
}
OpCost cost(const GatedActivationBackward& op) {
  return memory_cost("gated_activation_backward", moved(op.dy, op.x, op.bias), moved(op.dx));
}

OpCost cost(const TanhForward& op) { return memory_cost("tanh_forward", moved(op.x), moved(op.y)); }
OpCost cost(const TanhBackward& op) {
  return memory_cost("tanh_backward", moved(op.dy, op.y), moved(op.dx));
}

void bias_activation_forward(Context& context, const BiasActivationForward& op) {
  expect_shape("bias_activation_forward", "y", op.y, op.x.shape, op.x.dtype);
  expect_types("bias_activation_forward", op.x, op.bias);
  expect_dense_rows("bias_activation_forward", op.y);
  enqueue(context, op);
}

void bias_activation_backward(Context& context, const BiasActivationBackward& op) {
  expect_shape("bias_activation_backward", "dx", op.dx, op.x.shape, op.x.dtype);
  expect_shape("bias_activation_backward", "dy", op.dy, op.x.shape, op.x.dtype);
  expect_types("bias_activation_backward", op.x, op.bias);
  expect_dense_rows("bias_activation_backward", op.dx, op.dy);
  enqueue(context, op);
}

void gated_activation_forward(Context& context, const GatedActivationForward& op) {
  expect_types("gated_activation_forward", op.x, op.bias);
  expect_half("gated_activation_forward", "y", op.y, op.x);
  enqueue(context, op);
}

void gated_activation_backward(Context& context, const GatedActivationBackward& op) {
  expect_types("gated_activation_backward", op.x, op.bias);
  expect_half("gated_activation_backward", "dy", op.dy, op.x);
  expect_shape("gated_activation_backward", "dx", op.dx, op.x.shape, op.x.dtype);
  expect_dense_rows("gated_activation_backward", op.dx);
  enqueue(context, op);
}

void tanh_forward(Context& context, const TanhForward& op) {
  expect_shape("tanh_forward", "y", op.y, op.x.shape, op.x.dtype);
  expect_floating("tanh_forward", "x", op.x);
  expect_contiguous("tanh_forward", op.x, op.y);
  enqueue(context, op);
}

void tanh_backward(Context& context, const TanhBackward& op) {
  expect_shape("tanh_backward", "dx", op.dx, op.y.shape, op.y.dtype);
  expect_shape("tanh_backward", "dy", op.dy, op.y.shape, op.y.dtype);
  expect_floating("tanh_backward", "y", op.y);
  expect_contiguous("tanh_backward", op.dx, op.dy, op.y);
  enqueue(context, op);
}

}  // namespace phalanx::ops
