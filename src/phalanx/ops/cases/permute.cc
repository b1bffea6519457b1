#include "phalanx/ops/permute.h"

#include <cmath>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct Size {
  std::int64_t tokens, k, h, experts;
  bool drops = false;  // some pairs have no row
};

std::string size_name(const Size& size) {
  return fmt::format("{} tokens, {} of {}, {}{}", size.tokens, size.k, size.experts, size.h,
                     size.drops ? ", drops" : "");
}

// Experts that tokens choose; a token may choose one twice.
Tensor chosen(Operands& operands, const Size& size) {
  return operands.integers({size.tokens, size.k}, size.drops ? -2 : 0, size.experts);
}

Job sort(Operands& operands, const Size& size) {
  SortPairs op;
  op.offsets = operands.output(DType::kI32, {size.experts + 1});
  op.pair_of_row = operands.output(DType::kI32, {size.tokens * size.k});
  op.row_of_pair = operands.output(DType::kI32, {size.tokens, size.k});
  op.chosen = chosen(operands, size);
  return make_job(op, sort_pairs, {{op.offsets}, {op.pair_of_row}, {op.row_of_pair}});
}

// Pairs of two of the experts, or each expert with a number of rows.
Job sort_some(Operands& operands, const Size& size, std::int64_t first, std::int64_t padded) {
  SortPairs op;
  const std::int64_t experts = std::min<std::int64_t>(2, size.experts - first);
  op.offsets = operands.output(DType::kI32, {experts + 1});
  op.pair_of_row =
      operands.output(DType::kI32, {padded == 0 ? size.tokens * size.k : experts * padded});
  op.row_of_pair = operands.output(DType::kI32, {size.tokens, size.k});
  op.chosen = chosen(operands, size);
  op.first = first;
  op.experts = size.experts;
  op.padded = padded;
  return make_job(op, sort_pairs, {{op.offsets}, {op.pair_of_row}, {op.row_of_pair}});
}

// The order of pairs that sort_pairs() makes.
SortPairs sorted(Operands& operands, const Size& size) {
  SortPairs op;
  op.offsets = operands.filled(DType::kI32, {size.experts + 1}, 0.0);
  op.pair_of_row = operands.filled(DType::kI32, {size.tokens * size.k}, 0.0);
  op.row_of_pair = operands.filled(DType::kI32, {size.tokens, size.k}, 0.0);
  op.chosen = chosen(operands, size);
  sort_pairs(operands.preparation(), op);
  return op;
}

Tensor probabilities(Operands& operands, const Size& size) {
  return operands.uniform(operands.full(), {size.tokens, size.k}, 0.0, 1.0);
}

Job permute(Operands& operands, const Size& size, bool with_probabilities) {
  PermuteRows op;
  op.k = size.k;
  // Rows of no pair stay as they are.
  op.to = operands.uniform({size.tokens * size.k, size.h});
  op.from = operands.uniform({size.tokens, size.h});
  op.pair_of_row = sorted(operands, size).pair_of_row;
  if (with_probabilities) op.probabilities = probabilities(operands, size);
  return make_job(op, permute_rows, {near(op.to, 2)});
}

Job unpermute(Operands& operands, const Size& size, bool with_probabilities, bool full) {
  UnpermuteRows op;
  op.y = operands.output(operands.stream(full), {size.tokens, size.h});
  op.rows = operands.uniform({size.tokens * size.k, size.h});
  op.row_of_pair = sorted(operands, size).row_of_pair;
  if (with_probabilities) op.probabilities = probabilities(operands, size);
  return make_job(op, unpermute_rows, {near(op.y, 8)});
}

Job dots(Operands& operands, const Size& size) {
  PairDots op;
  op.dots = operands.output(operands.full(), {size.tokens, size.k});
  op.rows = operands.uniform({size.tokens * size.k, size.h});
  op.x = operands.uniform({size.tokens, size.h});
  op.row_of_pair = sorted(operands, size).row_of_pair;
  return make_job(op, pair_dots,
                  {near(op.dots, 8.0 + std::sqrt(static_cast<double>(size.h)), 1.0, 1.0)});
}

Job gather(Operands& operands, const Size& size, bool back) {
  const SortPairs order = sorted(operands, size);
  GatherElements op;
  op.index = back ? order.row_of_pair : order.pair_of_row;
  op.to = operands.output(operands.full(), op.index.shape);
  op.from = operands.uniform(operands.full(), back ? order.pair_of_row.shape : op.index.shape);
  return make_job(op, gather_elements, {{op.to}});
}

// Rows, each times its probability, and the sums of rows: each is the other's gradient.
GradientJob permute_gradients(Operands& operands, const Size& size) {
  const SortPairs order = sorted(operands, size);
  const std::int64_t rows = size.tokens * size.k;
  const PermuteRows op{.to = operands.filled(DType::kF64, {rows, size.h}, 0.0),
                       .from = operands.uniform({size.tokens, size.h}),
                       .pair_of_row = order.pair_of_row,
                       .probabilities = probabilities(operands, size),
                       .k = size.k};
  const Tensor dto = operands.uniform({rows, size.h});
  const UnpermuteRows back{.y = operands.output({size.tokens, size.h}),
                           .rows = dto,
                           .row_of_pair = order.row_of_pair,
                           .probabilities = op.probabilities};
  const PairDots of_p{.dots = operands.output({size.tokens, size.k}),
                      .rows = dto,
                      .x = op.from,
                      .row_of_pair = order.row_of_pair};
  GradientJob job;
  job.forward = call_of(permute_rows, op);
  job.backward = [=](Context& context) {
    unpermute_rows(context, back);
    pair_dots(context, of_p);
  };
  job.outputs = {{op.to, dto}};
  job.operands = {{op.from, back.y}, {op.probabilities, of_p.dots}};
  return job;
}

GradientJob unpermute_gradients(Operands& operands, const Size& size) {
  const SortPairs order = sorted(operands, size);
  const std::int64_t rows = size.tokens * size.k;
  const UnpermuteRows op{.y = operands.output({size.tokens, size.h}),
                         .rows = operands.uniform({rows, size.h}),
                         .row_of_pair = order.row_of_pair,
                         .probabilities = probabilities(operands, size)};
  const Tensor dy = operands.uniform({size.tokens, size.h});
  const PermuteRows back{.to = operands.filled(DType::kF64, {rows, size.h}, 0.0),
                         .from = dy,
                         .pair_of_row = order.pair_of_row,
                         .probabilities = op.probabilities,
                         .k = size.k};
  const PairDots of_p{.dots = operands.output({size.tokens, size.k}),
                      .rows = op.rows,
                      .x = dy,
                      .row_of_pair = order.row_of_pair};
  GradientJob job;
  job.forward = call_of(unpermute_rows, op);
  job.backward = [=](Context& context) {
    permute_rows(context, back);
    pair_dots(context, of_p);
  };
  job.outputs = {{op.y, dy}};
  job.operands = {{op.rows, back.to}, {op.probabilities, of_p.dots}};
  return job;
}

GradientJob gather_gradients(Operands& operands, const Size& size) {
  const SortPairs order = sorted(operands, size);
  const GatherElements op{.to = operands.output(order.pair_of_row.shape),
                          .from = probabilities(operands, size),
                          .index = order.pair_of_row};
  const Tensor dto = operands.uniform(op.to.shape);
  const GatherElements back{
      .to = operands.output(op.from.shape), .from = dto, .index = order.row_of_pair};
  return {call_of(gather_elements, op),
          call_of(gather_elements, back),
          {{op.to, dto}},
          {{op.from, back.to}}};
}

}  // namespace

void add_permute_cases(CaseTable& table) {
  const Size sizes[] = {{1, 1, 1, 1},         {7, 2, 17, 4},      {33, 3, 65, 5, true},
                        {600, 2, 8, 3, true}, {5, 4, 130, 64},    {0, 2, 8, 4},
                        {4, 2, 8, 0, true},   {5, 0, 8, 4, true}, {3, 64, 9, 70, true}};
  for (const Size& size : sizes) {
    const std::string name = size_name(size);
    table.test("sort_pairs", name, kFullPrecision, sort, size);
    if (size.experts > 1) {
      for (const std::int64_t padded : {0, 4, 300}) {
        const std::string some = fmt::format("{}, two from 1 on, padded to {}", name, padded);
        table.test("sort_pairs", some, kFullPrecision, sort_some, size, 1, padded);
      }
    }
    for (const bool back : {false, true}) {
      table.test("gather_elements", name + (back ? ", back" : ""), kFullPrecision, gather, size,
                 back);
    }
    if (size.k > 0) {
      table.test("permute_rows", name, kStorageTypes, permute, size, false);
      table.test("permute_rows", name + ", p", kStorageTypes, permute, size, true);
    }
    table.test("unpermute_rows", name, kStorageTypes, unpermute, size, false, false);
    table.test("unpermute_rows", name + ", p", kStorageTypes, unpermute, size, true, false);
    table.test("unpermute_rows", name + ", p, f32 sums", k16BitTypes, unpermute, size, true, true);
    table.test("pair_dots", name, kStorageTypes, dots, size);
  }
  const Size differentiated{4, 3, 3, 5, true};
  table.differentiate("permute_rows", size_name(differentiated), permute_gradients, differentiated);
  table.differentiate("unpermute_rows", size_name(differentiated), unpermute_gradients,
                      differentiated);
  table.differentiate("gather_elements", size_name(differentiated), gather_gradients,
                      differentiated);
  const Size timed{1024, 8, 2048, 64};
  const std::string name = size_name(timed);
  table.time("sort_pairs", name, kFullPrecision, sort, timed);
  table.time("permute_rows", name, kTimedTypes, permute, timed, false);
  table.time("unpermute_rows", name, kTimedTypes, unpermute, timed, false, false);
  table.time("pair_dots", name, kTimedTypes, dots, timed);
}

}  // namespace phalanx::ops
