#include "phalanx/ops/grouped_linear.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// A tensor of one matrix, or one row, for each group: what a group has is dense.
void expect_dense_groups(std::string_view op, const Tensor& stacked) {
  if (!stacked || stacked.shape[0] == 0) return;
  expect_contiguous(op, stacked.select(0, 0));
}

// The operands of a product: `rows` rows of n and of k numbers, one storage type.
struct ProductOperands {
  const Tensor& wide;  // [rows, n]
  const Tensor& deep;  // [rows, k]
  const Tensor& stacked;
  const Tensor& offsets;
};
void expect_product(std::string_view op, const ProductOperands& operands, bool gradient) {
  const std::int64_t rows = operands.wide.shape[0];
  const std::int64_t groups = operands.stacked.shape[0];
  const DType storage = operands.wide.dtype;
  expect_floating(op, "rows", operands.wide);
  expect_dtype(op, "rows", operands.deep, storage);
  expect_shape(op, "rows", operands.deep, {rows, operands.deep.shape[1]});
  expect_shape(op, "weight", operands.stacked,
               {groups, operands.wide.shape[1], operands.deep.shape[1]});
  if (gradient) {
    expect_full_precision(op, "dweight", operands.stacked);
  } else {
    expect_dtype(op, "weight", operands.stacked, storage);
  }
  expect_shape(op, "offsets", operands.offsets, {groups + 1}, DType::kI32);
  expect_contiguous(op, operands.offsets);
  expect_dense_rows(op, operands.wide, operands.deep);
  expect_dense_groups(op, operands.stacked);
}

// How many rows groups have, as far as it is known: `rows` is [rows, ...].
template <typename Op>
std::int64_t rows_of(const Op& op, const Tensor& rows) {
  return op.expected_rows.value_or(rows.shape[0]);
}

int groups_of(const Tensor& stacked) { return static_cast<int>(stacked.shape[0]); }

void expect_factors(std::string_view op, const Tensor& factors, std::int64_t rows) {
  if (!factors) return;
  expect_full_precision(op, "factors", factors, {rows});
  expect_contiguous(op, factors);
}

}  // namespace

OpCost cost(const GroupedLinearForward& op) {
  return product_cost("grouped_linear_forward", op.x.dtype,
                      {.m = rows_of(op, op.x),
                       .n = op.weight.shape[1],
                       .k = op.weight.shape[2],
                       .batch = 1,
                       .m_groups = groups_of(op.weight)},
                      bytes_of(op.x, op.weight, op.offsets, op.bias, op.bias_factors),
                      bytes_of(op.y));
}
OpCost cost(const GroupedLinearInputGradient& op) {
  return product_cost("grouped_linear_input_gradient", op.dy.dtype,
                      {.m = rows_of(op, op.dy),
                       .n = op.weight.shape[2],
                       .k = op.weight.shape[1],
                       .batch = 1,
                       .m_groups = groups_of(op.weight)},
                      bytes_of(op.dy, op.weight, op.offsets), bytes_of(op.dx));
}
OpCost cost(const GroupedLinearWeightGradient& op) {
  return product_cost(
      "grouped_linear_weight_gradient", op.dy.dtype,
      {.m = op.dweight.shape[1],
       .n = op.dweight.shape[2],
       .k = rows_of(op, op.dy),
       .batch = 1,
       .k_groups = groups_of(op.dweight)},
      bytes_of(op.dy, op.x, op.offsets) + (op.accumulate ? bytes_of(op.dweight) : 0),
      bytes_of(op.dweight));
}
OpCost cost(const GroupedBiasGradient& op) {
  return memory_cost("grouped_bias_gradient",
                     moved(op.dy, op.offsets, op.factors) + (op.accumulate ? moved(op.dbias) : 0),
                     moved(op.dbias));
}
OpCost cost(const GroupedBiasDots& op) {
  return memory_cost("grouped_bias_dots", moved(op.dots, op.dy, op.bias, op.offsets),
                     moved(op.dots));
}

void grouped_linear_forward(Context& context, const GroupedLinearForward& op) {
  constexpr std::string_view kOp = "grouped_linear_forward";
  expect_product(kOp, {op.y, op.x, op.weight, op.offsets}, false);
  if (op.bias) {
    expect_shape(kOp, "bias", op.bias, {op.weight.shape[0], op.weight.shape[1]}, op.x.dtype);
    expect_dense_rows(kOp, op.bias);
  }
  PHALANX_CHECK(op.bias || !op.bias_factors, "{}: factors of a bias that is absent", kOp);
  expect_factors(kOp, op.bias_factors, op.x.shape[0]);
  enqueue(context, op);
}

void grouped_linear_input_gradient(Context& context, const GroupedLinearInputGradient& op) {
  expect_product("grouped_linear_input_gradient", {op.dy, op.dx, op.weight, op.offsets}, false);
  enqueue(context, op);
}

void grouped_linear_weight_gradient(Context& context, const GroupedLinearWeightGradient& op) {
  expect_product("grouped_linear_weight_gradient", {op.dy, op.x, op.dweight, op.offsets}, true);
  enqueue(context, op);
}

void grouped_bias_gradient(Context& context, const GroupedBiasGradient& op) {
  constexpr std::string_view kOp = "grouped_bias_gradient";
  const std::int64_t groups = op.dbias.shape[0];
  expect_floating(kOp, "dy", op.dy);
  expect_full_precision(kOp, "dbias", op.dbias, {groups, op.dy.shape[1]});
  expect_shape(kOp, "offsets", op.offsets, {groups + 1}, DType::kI32);
  expect_dense_rows(kOp, op.dbias, op.dy);
  expect_contiguous(kOp, op.offsets);
  expect_factors(kOp, op.factors, op.dy.shape[0]);
  enqueue(context, op);
}

void grouped_bias_dots(Context& context, const GroupedBiasDots& op) {
  constexpr std::string_view kOp = "grouped_bias_dots";
  const std::int64_t groups = op.bias.shape[0];
  expect_floating(kOp, "dy", op.dy);
  expect_shape(kOp, "bias", op.bias, {groups, op.dy.shape[1]}, op.dy.dtype);
  expect_full_precision(kOp, "dots", op.dots, {op.dy.shape[0]});
  expect_shape(kOp, "offsets", op.offsets, {groups + 1}, DType::kI32);
  expect_dense_rows(kOp, op.bias, op.dy);
  expect_contiguous(kOp, op.offsets, op.dots);
  enqueue(context, op);
}

}  // namespace phalanx::ops
