#include "phalanx/ops/norm.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

// Checks x, y (or dy), the statistics and the weight.
template <typename Op>
void expect_norm(std::string_view name, const Op& op, std::string_view operand, const Tensor& y) {
  expect_shape(name, operand, y, op.x.shape);
  expect_floating(name, operand, y);
  expect_stream(name, "x", op.x, y.dtype);
  expect_dense_rows(name, op.x, y);
  expect_shape(name, "weight", op.weight, {op.x.shape[1]}, y.dtype);
  expect_full_precision(name, "rstd", op.rstd, {op.x.shape[0]});
  expect_contiguous(name, op.weight, op.mean, op.rstd);
  if (!op.mean) return;
  expect_full_precision(name, "mean", op.mean, {op.x.shape[0]});
}

template <typename Op>
void expect_norm_of_y(const Op& op) {
  const std::string_view name = cost(op).name;
  expect_norm(name, op, "y", op.y);
  if (op.mean) {
    expect_shape(name, "bias", op.bias, {op.x.shape[1]}, op.y.dtype);
    expect_contiguous(name, op.bias);
  } else {
    PHALANX_CHECK(!op.bias, "{}: a bias without a mean", name);
  }
}

void expect_sum(std::string_view name, std::string_view operand, const Tensor& sum,
                std::int64_t columns) {
  expect_full_precision(name, operand, sum, {columns});
  expect_contiguous(name, sum);
}

}  // namespace

OpCost cost(const NormForward& op) {
  return {op.mean ? "layer_norm_forward" : "rms_norm_forward", 0,
          bytes_of(op.x, op.weight, op.bias), bytes_of(op.y, op.mean, op.rstd)};
}
OpCost cost(const NormApply& op) {
  return {op.mean ? "layer_norm_apply" : "rms_norm_apply", 0,
          bytes_of(op.x, op.mean, op.rstd, op.weight, op.bias), bytes_of(op.y)};
}
OpCost cost(const NormBackward& op) {
  return {op.mean ? "layer_norm_backward" : "rms_norm_backward", 0,
          bytes_of(op.dy, op.x, op.mean, op.rstd, op.weight, op.residual),
          bytes_of(op.dx, op.dweight, op.dbias)};
}

void norm_forward(Context& context, const NormForward& op) {
  expect_norm_of_y(op);
  enqueue(context, op);
}

void norm_apply(Context& context, const NormApply& op) {
  expect_norm_of_y(op);
  enqueue(context, op);
}

void norm_backward(Context& context, const NormBackward& op) {
  const std::string_view name = cost(op).name;
  expect_norm(name, op, "dy", op.dy);
  expect_shape(name, "dx", op.dx, op.x.shape, op.x.dtype);
  expect_sum(name, "dweight", op.dweight, op.x.shape[1]);
  PHALANX_CHECK(op.mean || !op.dbias, "{}: dbias without a mean", name);
  if (op.mean) expect_sum(name, "dbias", op.dbias, op.x.shape[1]);
  if (op.residual) {
    expect_shape(name, "residual", op.residual, op.x.shape, op.x.dtype);
  }
  expect_dense_rows(name, op.dx, op.residual);
  enqueue(context, op);
}

}  // namespace phalanx::ops
