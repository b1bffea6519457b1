#include "phalanx/ops/permute.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

// A map from pairs to rows, or numbers of pairs.
void expect_pairs(std::string_view op, std::string_view operand, const Tensor& pairs,
                  std::int64_t tokens) {
  PHALANX_CHECK(pairs.defined() && pairs.shape.rank() == 2 && pairs.shape[0] == tokens &&
                    pairs.shape[1] <= kMostPairs,
                "{}: {} is {}, expected [{}, at most {}]", op, operand,
                pairs.defined() ? pairs.shape.to_string() : "absent", tokens, kMostPairs);
  expect_contiguous(op, pairs);
}

void expect_probabilities(std::string_view op, const Tensor& probabilities, std::int64_t tokens,
                          std::int64_t k) {
  if (!probabilities) return;
  expect_full_precision(op, "probabilities", probabilities, {tokens, k});
  expect_contiguous(op, probabilities);
}

}  // namespace

OpCost cost(const SortPairs& op) {
  return memory_cost("sort_pairs", moved(op.chosen),
                     moved(op.offsets, op.pair_of_row, op.row_of_pair));
}
OpCost cost(const PermuteRows& op) {
  return memory_cost("permute_rows", moved(op.to, op.pair_of_row, op.probabilities), moved(op.to));
}
OpCost cost(const UnpermuteRows& op) {
  return memory_cost("unpermute_rows", moved(op.rows, op.row_of_pair, op.probabilities),
                     moved(op.y));
}
OpCost cost(const PairDots& op) {
  return memory_cost("pair_dots", moved(op.rows, op.x, op.row_of_pair), moved(op.dots));
}
OpCost cost(const GatherElements& op) {
  return memory_cost("gather_elements", moved(op.to, op.index), moved(op.to));
}

void sort_pairs(Context& context, const SortPairs& op) {
  constexpr std::string_view kOp = "sort_pairs";
  expect_pairs(kOp, "chosen", op.chosen, op.chosen.shape[0]);
  expect_dtype(kOp, "chosen", op.chosen, DType::kI32);
  expect_shape(kOp, "row_of_pair", op.row_of_pair, op.chosen.shape, DType::kI32);
  expect_dtype(kOp, "offsets", op.offsets, DType::kI32);
  PHALANX_CHECK(op.offsets.shape.rank() == 1 && op.offsets.shape[0] >= 1,
                "{}: offsets is {}, expected [experts + 1]", kOp, op.offsets.shape.to_string());
  const std::int64_t experts = op.offsets.shape[0] - 1;
  PHALANX_CHECK(op.first >= 0 && op.padded >= 0 && op.first + experts <= op.all_experts(),
                "{}: {} experts from {} on of {}, {} rows each", kOp, experts, op.first,
                op.all_experts(), op.padded);
  expect_shape(kOp, "pair_of_row", op.pair_of_row,
               {op.padded == 0 ? op.chosen.count() : experts * op.padded}, DType::kI32);
  expect_contiguous(kOp, op.offsets, op.pair_of_row, op.row_of_pair);
  enqueue(context, op);
}

void permute_rows(Context& context, const PermuteRows& op) {
  constexpr std::string_view kOp = "permute_rows";
  expect_floating(kOp, "from", op.from);
  expect_shape(kOp, "to", op.to, {op.to.shape[0], op.from.shape[1]}, op.from.dtype);
  expect_shape(kOp, "pair_of_row", op.pair_of_row, {op.to.shape[0]}, DType::kI32);
  PHALANX_CHECK(op.k > 0 || op.to.shape[0] == 0, "{}: {} pairs of a token", kOp, op.k);
  expect_probabilities(kOp, op.probabilities, op.from.shape[0], op.k);
  expect_contiguous(kOp, op.pair_of_row);
  expect_dense_rows(kOp, op.to, op.from);
  enqueue(context, op);
}

void unpermute_rows(Context& context, const UnpermuteRows& op) {
  constexpr std::string_view kOp = "unpermute_rows";
  const std::int64_t tokens = op.y.shape[0];
  expect_floating(kOp, "rows", op.rows);
  expect_shape(kOp, "y", op.y, {tokens, op.rows.shape[1]});
  expect_stream(kOp, "y", op.y, op.rows.dtype);
  expect_pairs(kOp, "row_of_pair", op.row_of_pair, tokens);
  expect_dtype(kOp, "row_of_pair", op.row_of_pair, DType::kI32);
  expect_probabilities(kOp, op.probabilities, tokens, op.row_of_pair.shape[1]);
  expect_dense_rows(kOp, op.y, op.rows);
  enqueue(context, op);
}

void pair_dots(Context& context, const PairDots& op) {
  constexpr std::string_view kOp = "pair_dots";
  const std::int64_t tokens = op.x.shape[0];
  expect_floating(kOp, "x", op.x);
  expect_shape(kOp, "rows", op.rows, {op.rows.shape[0], op.x.shape[1]}, op.x.dtype);
  expect_pairs(kOp, "row_of_pair", op.row_of_pair, tokens);
  expect_dtype(kOp, "row_of_pair", op.row_of_pair, DType::kI32);
  expect_full_precision(kOp, "dots", op.dots, op.row_of_pair.shape);
  expect_contiguous(kOp, op.dots);
  expect_dense_rows(kOp, op.rows, op.x);
  enqueue(context, op);
}

void gather_elements(Context& context, const GatherElements& op) {
  constexpr std::string_view kOp = "gather_elements";
  expect_full_precision(kOp, "from", op.from);
  expect_dtype(kOp, "to", op.to, op.from.dtype);
  expect_dtype(kOp, "index", op.index, DType::kI32);
  PHALANX_CHECK(op.to.count() == op.index.count(), "{}: {} elements by {} indices", kOp,
                op.to.count(), op.index.count());
  expect_contiguous(kOp, op.to, op.from, op.index);
  enqueue(context, op);
}

}  // namespace phalanx::ops
