#include "phalanx/ops/rms_norm.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {
namespace {

// x and its statistics beside the weight and the normalised rows, which have one type.
void expect_norm(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& rstd,
                 const Tensor& weight) {
  expect_shape(op, "rstd", rstd, {x.shape[0]});
  expect_full_precision(op, "rstd", rstd);
  expect_floating(op, "y", y);
  expect_stream(op, "x", x, y.dtype);
  expect_shape(op, "weight", weight, {x.shape[1]});
  expect_dtype(op, "weight", weight, y.dtype);
  expect_dense_rows(op, x, y);
  expect_contiguous(op, rstd, weight);
}

}  // namespace

OpCost cost(const RmsNormForward& op) {
  return {"rms_norm_forward", 0, bytes_of(op.x, op.weight), bytes_of(op.y, op.rstd)};
}
OpCost cost(const RmsNormApply& op) {
  return {"rms_norm_apply", 0, bytes_of(op.x, op.rstd, op.weight), bytes_of(op.y)};
}
OpCost cost(const RmsNormBackward& op) {
  return {"rms_norm_backward", 0, bytes_of(op.dy, op.x, op.rstd, op.weight, op.residual),
          bytes_of(op.dx, op.dweight)};
}

void rms_norm_forward(Context& context, const RmsNormForward& op) {
  expect_shape("rms_norm_forward", "y", op.y, op.x.shape);
  expect_norm("rms_norm_forward", op.x, op.y, op.rstd, op.weight);
  enqueue(context, op);
}

void rms_norm_apply(Context& context, const RmsNormApply& op) {
  expect_shape("rms_norm_apply", "y", op.y, op.x.shape);
  expect_norm("rms_norm_apply", op.x, op.y, op.rstd, op.weight);
  enqueue(context, op);
}

void rms_norm_backward(Context& context, const RmsNormBackward& op) {
  expect_shape("rms_norm_backward", "dx", op.dx, op.x.shape);
  expect_dtype("rms_norm_backward", "dx", op.dx, op.x.dtype);
  expect_shape("rms_norm_backward", "dy", op.dy, op.x.shape);
  expect_shape("rms_norm_backward", "dweight", op.dweight, {op.x.shape[1]});
  expect_full_precision("rms_norm_backward", "dweight", op.dweight);
  expect_norm("rms_norm_backward", op.x, op.dy, op.rstd, op.weight);
  if (op.residual) {
    expect_shape("rms_norm_backward", "residual", op.residual, op.x.shape);
    expect_dtype("rms_norm_backward", "residual", op.residual, op.x.dtype);
  }
  expect_dense_rows("rms_norm_backward", op.dx, op.residual);
  expect_contiguous("rms_norm_backward", op.dweight);
  enqueue(context, op);
}

}  // namespace phalanx::ops
