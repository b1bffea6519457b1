#include "phalanx/ops/embedding.h"

#include "phalanx/ops/backend.h"
#include "phalanx/ops/check.h"
#include "phalanx/ops/memory_cost.h"

namespace phalanx::ops {
namespace {

void expect_ids(std::string_view op, const Tensor& ids, const Tensor& rows) {
  expect_shape(op, "ids", ids, {rows.shape[0], rows.shape[1]}, DType::kI32);
  expect_contiguous(op, ids);
}

void expect_slots(std::string_view op, const Tensor& slots, const Tensor& rows,
                  const Tensor& count) {
  expect_dtype(op, "slots", slots, DType::kI32);
  expect_dtype(op, "rows", rows, DType::kI32);
  expect_dtype(op, "count", count, DType::kI32);
  expect_contiguous(op, slots, rows, count);
}

}  // namespace

OpCost cost(const EmbeddingForward& op) {
  return memory_cost("embedding_forward", moved(op.ids, op.y), moved(op.y));
}
OpCost cost(const AddPositions& op) {
  return memory_cost("add_positions", moved(op.x, op.x, op.ids), moved(op.out));
}
OpCost cost(const EmbeddingGradient& op) {
  return memory_cost("embedding_gradient", moved(op.ids, op.dy, op.dy), moved(op.dy));
}
OpCost cost(const SparseEmbeddingGradient& op) {
  return memory_cost("sparse_embedding_gradient", moved(op.ids, op.dy, op.dy), moved(op.dy));
}
OpCost cost(const SparseEmbeddingJoin& op) {
  return memory_cost("sparse_embedding_join", moved(op.values, op.values), moved(op.values));
}

void embedding_forward(Context& context, const EmbeddingForward& op) {
  expect_ids("embedding_forward", op.ids, op.y);
  expect_shape("embedding_forward", "table", op.table, {op.table.shape[0], op.y.shape[2]});
  expect_floating("embedding_forward", "table", op.table);
  expect_stream("embedding_forward", "y", op.y, op.table.dtype);
  expect_dense_rows("embedding_forward", op.y, op.table);
  enqueue(context, op);
}

void add_positions(Context& context, const AddPositions& op) {
  expect_shape("add_positions", "out", op.out, op.x.shape);
  expect_ids("add_positions", op.ids, op.x);
  expect_shape("add_positions", "table", op.table, {op.table.shape[0], op.x.shape[2]});
  expect_floating("add_positions", "table", op.table);
  expect_stream("add_positions", "out", op.out, op.table.dtype);
  expect_dtype("add_positions", "x", op.x, op.out.dtype);
  expect_dense_rows("add_positions", op.out, op.x, op.table);
  expect_dropout("add_positions", op.dropout, op.rows, op.x.shape[0], op.x.shape[1]);
  enqueue(context, op);
}

void embedding_gradient(Context& context, const EmbeddingGradient& op) {
  expect_ids("embedding_gradient", op.ids, op.dy);
  expect_full_precision("embedding_gradient", "dtable", op.dtable,
                        {op.dtable.shape[0], op.dy.shape[2]});
  expect_floating("embedding_gradient", "dy", op.dy);
  expect_dense_rows("embedding_gradient", op.dtable, op.dy);
  enqueue(context, op);
}

void sparse_embedding_gradient(Context& context, const SparseEmbeddingGradient& op) {
  expect_ids("sparse_embedding_gradient", op.ids, op.dy);
  expect_full_precision("sparse_embedding_gradient", "values", op.values,
                        {op.rows.shape[0], op.dy.shape[2]});
  expect_shape("sparse_embedding_gradient", "count", op.count, {1});
  expect_floating("sparse_embedding_gradient", "dy", op.dy);
  expect_dense_rows("sparse_embedding_gradient", op.values, op.dy);
  expect_slots("sparse_embedding_gradient", op.slots, op.rows, op.count);
  enqueue(context, op);
}

void sparse_embedding_join(Context& context, const SparseEmbeddingJoin& op) {
  expect_shape("sparse_embedding_join", "slots", op.slots, {op.dtable.shape[0]});
  expect_shape("sparse_embedding_join", "values", op.values, {op.rows.shape[0], op.dtable.shape[1]},
               op.dtable.dtype);
  expect_full_precision("sparse_embedding_join", "dtable", op.dtable);
  expect_dense_rows("sparse_embedding_join", op.dtable, op.values);
  expect_slots("sparse_embedding_join", op.slots, op.rows, op.count);
  enqueue(context, op);
}

}  // namespace phalanx::ops
