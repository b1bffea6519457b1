#include "phalanx/ops/layer_norm.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

void expect_statistics(std::string_view op, const Tensor& x, const Tensor& mean,
                       const Tensor& rstd) {
  expect_shape(op, "mean", mean, {x.shape[0]});
  expect_shape(op, "rstd", rstd, {x.shape[0]});
  expect_full_precision(op, "mean", mean);
  expect_full_precision(op, "rstd", rstd);
  expect_contiguous(op, mean, rstd);
}

// x beside the vectors and the normalised rows, which have one type.
void expect_types(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& weight) {
  expect_floating(op, "y", y);
  expect_stream(op, "x", x, y.dtype);
  expect_dtype(op, "weight", weight, y.dtype);
  expect_dense_rows(op, x, y);
  expect_contiguous(op, weight);
}

}  // namespace

OpCost cost(const LayerNormForward& op) {
  return {"layer_norm_forward", 0, bytes_of(op.x, op.weight, op.bias),
          bytes_of(op.y, op.mean, op.rstd)};
}
OpCost cost(const LayerNormApply& op) {
  return {"layer_norm_apply", 0, bytes_of(op.x, op.mean, op.rstd, op.weight, op.bias),
          bytes_of(op.y)};
}
OpCost cost(const LayerNormBackward& op) {
  return {"layer_norm_backward", 0, bytes_of(op.dy, op.x, op.mean, op.rstd, op.weight, op.residual),
          bytes_of(op.dx, op.dweight, op.dbias)};
}

void layer_norm_forward(Context& context, const LayerNormForward& op) {
  const Shape vector = {op.x.shape[1]};
  expect_shape("layer_norm_forward", "y", op.y, op.x.shape);
  expect_shape("layer_norm_forward", "weight", op.weight, vector);
  expect_shape("layer_norm_forward", "bias", op.bias, vector);
  expect_types("layer_norm_forward", op.x, op.y, op.weight);
  expect_dtype("layer_norm_forward", "bias", op.bias, op.y.dtype);
  expect_contiguous("layer_norm_forward", op.bias);
  expect_statistics("layer_norm_forward", op.x, op.mean, op.rstd);
  enqueue(context, op);
}

void layer_norm_apply(Context& context, const LayerNormApply& op) {
  const Shape vector = {op.x.shape[1]};
  expect_shape("layer_norm_apply", "y", op.y, op.x.shape);
  expect_shape("layer_norm_apply", "weight", op.weight, vector);
  expect_shape("layer_norm_apply", "bias", op.bias, vector);
  expect_types("layer_norm_apply", op.x, op.y, op.weight);
  expect_dtype("layer_norm_apply", "bias", op.bias, op.y.dtype);
  expect_contiguous("layer_norm_apply", op.bias);
  expect_statistics("layer_norm_apply", op.x, op.mean, op.rstd);
  enqueue(context, op);
}

void layer_norm_backward(Context& context, const LayerNormBackward& op) {
  const Shape vector = {op.x.shape[1]};
  expect_shape("layer_norm_backward", "dx", op.dx, op.x.shape);
  expect_shape("layer_norm_backward", "dy", op.dy, op.x.shape);
  expect_shape("layer_norm_backward", "weight", op.weight, vector);
  expect_shape("layer_norm_backward", "dweight", op.dweight, vector);
  expect_shape("layer_norm_backward", "dbias", op.dbias, vector);
  expect_full_precision("layer_norm_backward", "dweight", op.dweight);
  expect_full_precision("layer_norm_backward", "dbias", op.dbias);
  expect_types("layer_norm_backward", op.x, op.dy, op.weight);
  expect_dtype("layer_norm_backward", "dx", op.dx, op.x.dtype);
  if (op.residual) {
    expect_shape("layer_norm_backward", "residual", op.residual, op.x.shape);
    expect_dtype("layer_norm_backward", "residual", op.residual, op.x.dtype);
  }
  expect_statistics("layer_norm_backward", op.x, op.mean, op.rstd);
  expect_dense_rows("layer_norm_backward", op.dx, op.residual);
  expect_contiguous("layer_norm_backward", op.dweight, op.dbias);
  enqueue(context, op);
}

}  // namespace phalanx::ops
