#include "phalanx/ops/linear.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {

namespace {

// The factors of a product have one storage type.
void expect_types(std::string_view op, std::string_view a_name, const Tensor& a,
                  std::string_view b_name, const Tensor& b) {
  expect_floating(op, a_name, a);
  expect_dtype(op, b_name, b, a.dtype);
  expect_dense_rows(op, a, b);
}

void expect_activation_bias(std::string_view op, const Tensor& bias, std::int64_t columns,
                            DType dtype) {
  if (!bias) return;
  expect_shape(op, "activation bias", bias, {columns}, dtype);
  expect_contiguous(op, bias);
}

}  // namespace

OpCost cost(const LinearForward& op) {
  return product_cost("linear_forward", op.x.dtype,
                      {.m = op.x.shape[0], .n = op.weight.shape[0], .k = op.x.shape[1], .batch = 1},
                      bytes_of(op.x, op.weight, op.bias, op.activation.bias),
                      bytes_of(op.y, op.activation.activated));
}
OpCost cost(const LinearInputGradient& op) {
  return product_cost(
      "linear_input_gradient", op.dy.dtype,
      {.m = op.dy.shape[0], .n = op.weight.shape[1], .k = op.dy.shape[1], .batch = 1},
      bytes_of(op.dy, op.weight, op.activation.x, op.activation.bias), bytes_of(op.dx));
}
OpCost cost(const LinearWeightGradient& op) {
  return product_cost("linear_weight_gradient", op.dy.dtype,
                      {.m = op.dy.shape[1], .n = op.x.shape[1], .k = op.dy.shape[0], .batch = 1},
                      bytes_of(op.dy, op.x) + (op.accumulate ? bytes_of(op.dweight, op.dbias) : 0),
                      bytes_of(op.dweight, op.dbias));
}
OpCost cost(const BiasGradient& op) {
  return memory_cost("bias_gradient", moved(op.dy) + (op.accumulate ? op.dbias.bytes() : 0),
                     moved(op.dbias));
}

void linear_forward(Context& context, const LinearForward& op) {
  const auto rows = op.x.shape[0];
  const auto n = op.weight.shape[0];
  expect_shape("linear_forward", "weight", op.weight, {n, op.x.shape[1]});
  expect_shape("linear_forward", "y", op.y, {rows, n});
  expect_types("linear_forward", "x", op.x, "weight", op.weight);
  expect_stream("linear_forward", "y", op.y, op.x.dtype);
  if (op.bias) {
    expect_shape("linear_forward", "bias", op.bias, {n}, op.x.dtype);
  }
  if (op.activation.activated) {
    expect_shape("linear_forward", "activated", op.activation.activated, {rows, n}, op.x.dtype);
    expect_dtype("linear_forward", "y", op.y, op.x.dtype);
    expect_activation_bias("linear_forward", op.activation.bias, n, op.x.dtype);
  }
  expect_dense_rows("linear_forward", op.y, op.activation.activated);
  expect_contiguous("linear_forward", op.bias);
  enqueue(context, op);
}

void linear_input_gradient(Context& context, const LinearInputGradient& op) {
  const auto rows = op.dy.shape[0];
  const auto n = op.dy.shape[1];
  expect_shape("linear_input_gradient", "weight", op.weight, {n, op.dx.shape[1]});
  expect_shape("linear_input_gradient", "dx", op.dx, {rows, op.dx.shape[1]});
  expect_types("linear_input_gradient", "dy", op.dy, "weight", op.weight);
  expect_stream("linear_input_gradient", "dx", op.dx, op.dy.dtype);
  if (op.activation.x) {
    expect_shape("linear_input_gradient", "x", op.activation.x, op.dx.shape, op.dy.dtype);
    expect_dtype("linear_input_gradient", "dx", op.dx, op.dy.dtype);
    expect_activation_bias("linear_input_gradient", op.activation.bias, op.dx.shape[1],
                           op.dy.dtype);
  }
  expect_dense_rows("linear_input_gradient", op.dx, op.activation.x);
  enqueue(context, op);
}

void linear_weight_gradient(Context& context, const LinearWeightGradient& op) {
  const auto rows = op.dy.shape[0];
  expect_shape("linear_weight_gradient", "x", op.x, {rows, op.x.shape[1]});
  expect_full_precision("linear_weight_gradient", "dweight", op.dweight,
                        {op.dy.shape[1], op.x.shape[1]});
  expect_types("linear_weight_gradient", "dy", op.dy, "x", op.x);
  if (op.dbias) {
    expect_full_precision("linear_weight_gradient", "dbias", op.dbias, {op.dy.shape[1]});
  }
  expect_dense_rows("linear_weight_gradient", op.dweight);
  expect_contiguous("linear_weight_gradient", op.dbias);
  enqueue(context, op);
}

void bias_gradient(Context& context, const BiasGradient& op) {
  expect_full_precision("bias_gradient", "dbias", op.dbias, {op.dy.shape[1]});
  expect_floating("bias_gradient", "dy", op.dy);
  expect_dense_rows("bias_gradient", op.dy);
  expect_contiguous("bias_gradient", op.dbias);
  enqueue(context, op);
}

}  // namespace phalanx::ops
