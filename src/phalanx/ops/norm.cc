#include "phalanx/ops/norm.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// Checks x, y (or dy), the statistics and the weight.
template <typename Op>
void expect_norm(std::string_view name, const Op& op, std::string_view operand, const Tensor& y) {
  expect_shape(name, operand, y, op.x.shape);
  expect_floating(name, operand, y);
  expect_stream(name, "x", op.x, y.dtype);
  const Shape& s = op.x.shape;
  PHALANX_CHECK(s.rank() == 2 || s.rank() == 3, "{}: x is {}, expected [rows, h] or places in rows",
                name, s.to_string());
  expect_dense_last(name, op.x, y);
  expect_shape(name, "weight", op.weight, {s.back()}, y.dtype);
  const Shape of_rows = s.rank() == 2 ? Shape{s[0]} : Shape{s[1], s[0]};
  expect_full_precision(name, "rstd", op.rstd, of_rows);
  expect_contiguous(name, op.weight, op.mean, op.rstd);
  if (!op.mean) return;
  expect_full_precision(name, "mean", op.mean, of_rows);
}

template <typename Op>
void expect_norm_of_y(const Op& op) {
  const std::string_view name = cost(op).name;
  expect_norm(name, op, "y", op.y);
  if (op.mean) {
    expect_shape(name, "bias", op.bias, {op.x.shape.back()}, op.y.dtype);
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

// Replaces operands of rows and statistics by those of one place.
template <typename... Operands>
void select_place(std::int64_t place, Operands*... operands) {
  ((*operands = *operands ? operands->select(1, place) : Tensor{}), ...);
}
template <typename Op>
void select_statistics(std::int64_t place, Op& op) {
  if (op.mean) op.mean = op.mean.select(0, place);
  op.rstd = op.rstd.select(0, place);
}
template <typename Op>
Op forward_at_place(Op op, std::int64_t place) {
  if (op.x.shape.rank() == 2) return op;
  select_place(place, &op.y, &op.x);
  select_statistics(place, op);
  return op;
}

}  // namespace

NormForward at_place(const NormForward& op, std::int64_t place) {
  return forward_at_place(op, place);
}
NormApply at_place(const NormApply& op, std::int64_t place) { return forward_at_place(op, place); }
NormBackward at_place(const NormBackward& op, std::int64_t place) {
  if (op.x.shape.rank() == 2) return op;
  NormBackward at = op;
  select_place(place, &at.dx, &at.dy, &at.x, &at.residual);
  select_statistics(place, at);
  return at;
}

OpCost cost(const NormForward& op) {
  return memory_cost(op.mean ? "layer_norm_forward" : "rms_norm_forward",
                     moved(op.x, op.weight, op.bias), moved(op.y, op.mean, op.rstd));
}
OpCost cost(const NormApply& op) {
  return memory_cost(op.mean ? "layer_norm_apply" : "rms_norm_apply",
                     moved(op.x, op.mean, op.rstd, op.weight, op.bias), moved(op.y));
}
OpCost cost(const NormBackward& op) {
  return memory_cost(op.mean ? "layer_norm_backward" : "rms_norm_backward",
                     moved(op.dy, op.x, op.mean, op.rstd, op.weight, op.residual),
                     moved(op.dx, op.dweight, op.dbias));
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
  expect_sum(name, "dweight", op.dweight, op.x.shape.back());
  PHALANX_CHECK(op.mean || !op.dbias, "{}: dbias without a mean", name);
  if (op.mean) expect_sum(name, "dbias", op.dbias, op.x.shape.back());
  if (op.residual) {
    expect_shape(name, "residual", op.residual, op.x.shape, op.x.dtype);
  }
  expect_dense_last(name, op.dx, op.residual);
  enqueue(context, op);
}

}  // namespace phalanx::ops
