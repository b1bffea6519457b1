#include "phalanx/ops/embedding.h"

#include <algorithm>

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct EmbeddingSize {
  std::int64_t s, b, h, v;
  std::int64_t first_row = 0;
};

std::string embedding_name(const EmbeddingSize& size) {
  return fmt::format("{}x{}x{} of {} rows from {}", size.s, size.b, size.h, size.v, size.first_row);
}

// Some ids lie outside a table that does not start at 0.
Tensor make_ids(Operands& operands, const EmbeddingSize& size) {
  const std::int64_t last = size.first_row > 0 ? size.first_row + 2 * size.v : size.v;
  return operands.integers({size.s, size.b}, 0, last);
}

Job forward(Operands& operands, const EmbeddingSize& size, bool fp32_residual = false) {
  const Shape shape{size.s, size.b, size.h};
  const EmbeddingForward op{.y = operands.output(operands.stream(fp32_residual), shape),
                            .table = operands.uniform({size.v, size.h}),
                            .ids = make_ids(operands, size),
                            .first_row = size.first_row};
  return make_job(op, embedding_forward, {{op.y, 0.0}});
}

Job positions(Operands& operands, const EmbeddingSize& size, double probability, bool in_place,
              bool fp32_residual = false) {
  const Shape shape{size.s, size.b, size.h};
  const DType stream = operands.stream(fp32_residual);
  AddPositions op;
  op.x = operands.uniform(stream, shape);
  op.out = in_place ? op.x : operands.output(stream, shape);
  op.table = operands.uniform({size.v, size.h});
  op.ids = operands.integers({size.s, size.b}, 0, size.v);
  op.dropout = case_dropout(probability);
  op.rows = operands.rows(size.s, size.b, 3);
  return make_job(op, add_positions, {{op.out, 0.0}});
}

Job gradient(Operands& operands, const EmbeddingSize& size) {
  const EmbeddingGradient op{.dtable = operands.uniform(operands.full(), {size.v, size.h}),
                             .ids = make_ids(operands, size),
                             .dy = operands.uniform({size.s, size.b, size.h}),
                             .first_row = size.first_row};
  return make_job(op, embedding_gradient, {near(op.dtable, 16)});
}

// An empty sparse accumulator for `tokens` tokens.
SparseEmbeddingGradient sparse_op(Operands& operands, const EmbeddingSize& size,
                                  std::int64_t tokens) {
  const std::int64_t n = std::min(size.v, tokens);
  return {.slots = operands.filled(DType::kI32, {size.v}, -1),
          .rows = operands.output(DType::kI32, {n}),
          .count = operands.filled(DType::kI32, {1}, 0),
          .values = operands.output(operands.full(), {n, size.h}),
          .ids = make_ids(operands, size),
          .dy = operands.uniform({size.s, size.b, size.h}),
          .first_row = size.first_row};
}

// The second microbatch of a step: some rows have occurred, some come new.
SparseEmbeddingGradient second_microbatch(Operands& operands, const EmbeddingSize& size) {
  SparseEmbeddingGradient op = sparse_op(operands, size, 2 * size.s * size.b);
  sparse_embedding_gradient(operands.preparation(), op);
  op.ids = make_ids(operands, size);
  op.dy = operands.uniform({size.s, size.b, size.h});
  return op;
}

Job sparse(Operands& operands, const EmbeddingSize& size) {
  const SparseEmbeddingGradient op = second_microbatch(operands, size);
  return make_job(op, sparse_embedding_gradient,
                  {{op.slots, 0.0}, {op.rows, 0.0}, {op.count, 0.0}, near(op.values, 16)});
}

Job join(Operands& operands, const EmbeddingSize& size) {
  const SparseEmbeddingGradient sparse = second_microbatch(operands, size);
  const SparseEmbeddingJoin op{.dtable = operands.uniform(operands.full(), {size.v, size.h}),
                               .slots = sparse.slots,
                               .rows = sparse.rows,
                               .count = sparse.count,
                               .values = sparse.values};
  return make_job(op, sparse_embedding_join,
                  {near(op.dtable, 2), {op.slots, 0.0}, {op.count, 0.0}});
}

// Dense, or sparse and then joined: the same derivative.
GradientJob look_up_gradient(Operands& operands, const EmbeddingSize& size, bool through_slots) {
  const EmbeddingForward op{.y = operands.output({size.s, size.b, size.h}),
                            .table = operands.uniform({size.v, size.h}),
                            .ids = make_ids(operands, size),
                            .first_row = size.first_row};
  const Tensor dy = operands.uniform({size.s, size.b, size.h});
  const Tensor dtable = operands.filled(DType::kF64, {size.v, size.h}, 0.0);
  GradientJob job;
  job.forward = call_of(embedding_forward, op);
  if (through_slots) {
    SparseEmbeddingGradient sparse = sparse_op(operands, size, size.s * size.b);
    sparse.ids = op.ids;
    sparse.dy = dy;
    job.backward = [=](Context& context) {
      sparse_embedding_gradient(context, sparse);
      sparse_embedding_join(context,
                            {dtable, sparse.slots, sparse.rows, sparse.count, sparse.values});
    };
  } else {
    job.backward = [=](Context& context) {
      embedding_gradient(context, {dtable, op.ids, dy, op.first_row});
    };
  }
  job.outputs = {{op.y, dy}};
  job.operands = {{op.table, dtable}};
  return job;
}

GradientJob position_gradient(Operands& operands, const EmbeddingSize& size) {
  const Shape shape{size.s, size.b, size.h};
  const AddPositions op{.out = operands.output(shape),
                        .x = operands.uniform(shape),
                        .table = operands.uniform({size.v, size.h}),
                        .ids = operands.integers({size.s, size.b}, 0, size.v),
                        .dropout = case_dropout(0.3),
                        .rows = operands.rows(size.s, size.b)};
  const DropoutBackward back{.dx = operands.output(shape),
                             .dout = operands.uniform(shape),
                             .dropout = op.dropout,
                             .rows = op.rows};
  const Tensor dtable = operands.filled(DType::kF64, {size.v, size.h}, 0.0);
  GradientJob job;
  job.forward = call_of(add_positions, op);
  job.backward = [=](Context& context) {
    dropout_backward(context, back);
    embedding_gradient(context, {dtable, op.ids, back.dx});
  };
  job.outputs = {{op.out, back.dout}};
  job.operands = {{op.x, back.dx}, {op.table, dtable}};
  return job;
}

void add_performance(CaseTable& table) {
  const EmbeddingSize words{256, 4, 768, 50304};
  const EmbeddingSize places{256, 4, 768, 1024};
  const auto add = [&](const char* op, const std::string& description, auto... build) {
    table.time(op, description, kTimedTypes, build...);
  };
  add("embedding_forward", embedding_name(words), forward, words, false);
  add("add_positions", embedding_name(places) + ", p = 0.1", positions, places, 0.1, true, false);
  add("embedding_gradient", embedding_name(words), gradient, words);
  // Not the join: it has nothing to do when it runs again.
  add("sparse_embedding_gradient", embedding_name(words), sparse, words);
}

}  // namespace

void add_embedding_cases(CaseTable& table) {
  for (const EmbeddingSize& size :
       {EmbeddingSize{1, 1, 1, 1}, EmbeddingSize{3, 2, 17, 5}, EmbeddingSize{17, 3, 65, 257},
        EmbeddingSize{65, 2, 33, 9, 7}, EmbeddingSize{9, 1, 257, 40, 1000}}) {
    const auto add = [&](const char* op, const std::string& description, auto... build) {
      table.test(op, description, kStorageTypes, build...);
    };
    add("embedding_forward", embedding_name(size), forward, size, false);
    table.test("embedding_forward", embedding_name(size) + ", fp32 residual", k16BitTypes, forward,
               size, true);
    add("embedding_gradient", embedding_name(size), gradient, size);
    add("sparse_embedding_gradient", embedding_name(size), sparse, size);
    add("sparse_embedding_join", embedding_name(size), join, size);
    for (const double probability : {0.0, 0.1}) {
      const auto description = fmt::format("{}, p = {}", embedding_name(size), probability);
      add("add_positions", description, positions, size, probability, false, false);
      add("add_positions", description + ", in place", positions, size, probability, true, false);
      table.test("add_positions", description + ", fp32 residual", k16BitTypes, positions, size,
                 probability, true, true);
    }
  }
  const EmbeddingSize small{5, 2, 3, 4, 2};
  for (const bool through_slots : {false, true}) {
    table.differentiate("embedding", through_slots ? "sparse" : "dense", look_up_gradient, small,
                        through_slots);
  }
  table.differentiate("add_positions", "p = 0.3", position_gradient, EmbeddingSize{5, 2, 3, 4});
  add_performance(table);
}

}  // namespace phalanx::ops
