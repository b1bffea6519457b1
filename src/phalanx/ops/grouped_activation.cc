#include "phalanx/ops/grouped_activation.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// What both passes take: `y` is the result, or its gradient.
template <typename Op>
void expect_operands(std::string_view name, const Op& op, const Tensor& y) {
  const std::int64_t rows = y.shape[0];
  const std::int64_t columns = (op.gated ? 2 : 1) * y.shape[1];
  expect_floating(name, "x", op.x);
  expect_shape(name, "x", op.x, {rows, columns}, y.dtype);
  expect_dtype(name, "offsets", op.offsets, DType::kI32);
  PHALANX_CHECK(op.offsets.shape.rank() == 1 && op.offsets.shape[0] >= 1,
                "{}: offsets is {}, expected [groups + 1]", name, op.offsets.shape.to_string());
  if (op.bias) {
    expect_shape(name, "bias", op.bias, {op.offsets.shape[0] - 1, columns}, y.dtype);
  }
  if (op.probabilities) {
    expect_full_precision(name, "probabilities", op.probabilities, {rows});
  }
  expect_contiguous(name, op.offsets, op.probabilities);
  expect_dense_rows(name, op.x, y, op.bias);
}

}  // namespace

OpCost cost(const GroupedActivationForward& op) {
  return memory_cost("grouped_activation_forward",
                     moved(op.x, op.offsets, op.bias, op.probabilities), moved(op.y));
}
OpCost cost(const GroupedActivationBackward& op) {
  return memory_cost("grouped_activation_backward",
                     moved(op.dy, op.x, op.offsets, op.bias, op.probabilities),
                     moved(op.dx, op.dprobabilities));
}

void grouped_activation_forward(Context& context, const GroupedActivationForward& op) {
  expect_operands("grouped_activation_forward", op, op.y);
  enqueue(context, op);
}

void grouped_activation_backward(Context& context, const GroupedActivationBackward& op) {
  constexpr std::string_view kOp = "grouped_activation_backward";
  expect_operands(kOp, op, op.dy);
  expect_shape(kOp, "dx", op.dx, op.x.shape, op.x.dtype);
  expect_dense_rows(kOp, op.dx);
  PHALANX_CHECK(op.dprobabilities.defined() == op.probabilities.defined(),
                "{}: probabilities without their gradient, or the other way round", kOp);
  if (op.dprobabilities) {
    expect_full_precision(kOp, "dprobabilities", op.dprobabilities, {op.dy.shape[0]});
    expect_contiguous(kOp, op.dprobabilities);
  }
  enqueue(context, op);
}

}  // namespace phalanx::ops
