#include "phalanx/ops/reduce.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"

namespace phalanx::ops {

namespace {

void expect_block_grid(std::string_view op, const Tensor& blocks, const Tensor& x,
                       std::int64_t lead) {
  PHALANX_CHECK(lead >= 0 && lead < kSumBlock, "{}: lead {} is not within a block of {}", op, lead,
                kSumBlock);
  PHALANX_CHECK(x.shape.rank() == 1, "{}: x is {}, expected one dimension", op,
                x.shape.to_string());
  expect_full_precision(op, "x", x);
  expect_contiguous(op, x, blocks);
  expect_shape(op, "the blocks", blocks, {sum_blocks(lead, x.count())}, DType::kF64);
}

}  // namespace

OpCost cost(const SquareSum& op) { return {"square_sum", 0, bytes_of(op.x), bytes_of(op.sums)}; }
OpCost cost(const ZeroCount& op) { return {"zero_count", 0, bytes_of(op.x), bytes_of(op.counts)}; }
OpCost cost(const Total& op) { return {"total", 0, bytes_of(op.x), bytes_of(op.sum)}; }
OpCost cost(const GradientFactor& op) {
  return {"gradient_factor", 0, bytes_of(op.square_sums, op.tokens, op.loss_scale),
          bytes_of(op.norm, op.factor, op.skip)};
}

void square_sum(Context& context, const SquareSum& op) {
  expect_block_grid("square_sum", op.sums, op.x, op.lead);
  enqueue(context, op);
}

void zero_count(Context& context, const ZeroCount& op) {
  expect_block_grid("zero_count", op.counts, op.x, op.lead);
  enqueue(context, op);
}

void total(Context& context, const Total& op) {
  expect_shape("total", "sum", op.sum, {1}, DType::kF64);
  expect_dtype("total", "x", op.x, DType::kF64);
  expect_contiguous("total", op.x);
  enqueue(context, op);
}

void gradient_factor(Context& context, const GradientFactor& op) {
  for (const Tensor* one : {&op.norm, &op.factor, &op.skip, &op.loss_scale}) {
    expect_full_precision("gradient_factor", "a scalar", *one, {1});
  }
  expect_dtype("gradient_factor", "square_sums", op.square_sums, DType::kF64);
  expect_contiguous("gradient_factor", op.square_sums);
  enqueue(context, op);
}

}  // namespace phalanx::ops
