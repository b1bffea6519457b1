#include "phalanx/ops/reduce.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {

namespace {

void expect_vector(std::string_view op, std::string_view operand, const Tensor& tensor) {
  PHALANX_CHECK(tensor.shape.rank() == 1, "{}: {} is {}, expected one dimension", op, operand,
                tensor.shape.to_string());
  expect_contiguous(op, tensor);
}

// Results by segment, `results_of(segment)` of them.
template <typename ResultsOf>
void expect_results(std::string_view op, const Tensor& results, const SegmentTable& table,
                    const ResultsOf& results_of) {
  expect_vector(op, "the results", results);
  expect_dtype(op, "the results", results, DType::kF64);
  for (const Segment& segment : table.host) {
    PHALANX_CHECK(segment.group + results_of(segment) <= results.count(),
                  "{}: a segment has results from {} on in {}", op, segment.group, results.count());
  }
}

void expect_block_results(std::string_view op, const Tensor& results, const Tensor& x,
                          const SegmentTable& table, std::int64_t first) {
  expect_vector(op, "x", x);
  expect_full_precision(op, "x", x);
  expect_segments(op, table, first, x.count(), results.count());
  expect_results(op, results, table, blocks_of);
}

OpCost cost_of_blocks(const char* name, const Tensor& x, const SegmentTable& table) {
  return memory_cost(name, {x.dtype, table.elements() * size_of(x.dtype)},
                     table.blocks() * size_of(DType::kF64));
}

}  // namespace

OpCost cost(const SquareSumSegments& op) { return cost_of_blocks("square_sum", op.x, op.table); }
OpCost cost(const ZeroCountSegments& op) { return cost_of_blocks("zero_count", op.x, op.table); }
OpCost cost(const TotalSegments& op) {
  return memory_cost("total_segments", op.table.elements() * size_of(DType::kF64),
                     std::ssize(op.table.host) * size_of(DType::kF64));
}
OpCost cost(const Total& op) { return memory_cost("total", moved(op.x), moved(op.sum)); }
OpCost cost(const GradientFactor& op) {
  return memory_cost("gradient_factor", moved(op.square_sums, op.tokens, op.loss_scale, op.checked),
                     moved(op.norm, op.factor, op.skip));
}

void square_sum_segments(Context& context, const SquareSumSegments& op) {
  expect_block_results("square_sum", op.sums, op.x, op.table, op.first);
  if (!op.table.host.empty()) enqueue(context, op);
}

void zero_count_segments(Context& context, const ZeroCountSegments& op) {
  expect_block_results("zero_count", op.counts, op.x, op.table, op.first);
  if (!op.table.host.empty()) enqueue(context, op);
}

void total_segments(Context& context, const TotalSegments& op) {
  expect_vector("total_segments", "x", op.x);
  expect_dtype("total_segments", "x", op.x, DType::kF64);
  expect_segments("total_segments", op.table, 0, op.x.count(), op.totals.count());
  expect_results("total_segments", op.totals, op.table, [](const Segment&) { return 1; });
  if (!op.table.host.empty()) enqueue(context, op);
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
  if (op.tokens) {
    expect_shape("gradient_factor", "tokens", op.tokens, {1}, DType::kF64);
    expect_shape("gradient_factor", "expected_tokens", op.expected_tokens, {1}, DType::kF64);
  }
  if (op.checked) {
    expect_vector("gradient_factor", "checked", op.checked);
    expect_dtype("gradient_factor", "checked", op.checked, DType::kF64);
  }
  expect_dtype("gradient_factor", "square_sums", op.square_sums, DType::kF64);
  expect_contiguous("gradient_factor", op.square_sums);
  enqueue(context, op);
}

}  // namespace phalanx::ops
