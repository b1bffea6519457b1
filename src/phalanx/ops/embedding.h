#pragma once
// Table look-up and its gradients. A table may be rows [first_row, first_row + v) of a larger one:
// ids outside give zero rows and no gradient (vocabulary parallelism). The stream (y; out and x of
// AddPositions; dy) has the table's type or is f32.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

struct EmbeddingForward {
  Tensor y;      // [s, b, h]
  Tensor table;  // [v, h]
  Tensor ids;    // [s, b], i32
  std::int64_t first_row = 0;
};

// out = dropout(x + table[ids]), the sum rounded before dropout: learned positions.
struct AddPositions {
  Tensor out;    // [s, b, h]; may be x
  Tensor x;      // [s, b, h]
  Tensor table;  // [max positions, h]
  Tensor ids;    // [s, b], i32
  Dropout dropout;
  RowCoordinates rows;
};

// dtable[ids[r]] += dy[r], rows in order.
struct EmbeddingGradient {
  Tensor dtable;  // [v, h], f32
  Tensor ids;     // [s, b], i32
  Tensor dy;      // [s, b, h]
  std::int64_t first_row = 0;
};

// The gradient of a tied embedding's input side: only rows that occurred, in order of first
// occurrence in the step. slots[v] is -1 for a row that has not occurred; rows[slot] is it and
// values[slot] its sum.
struct SparseEmbeddingGradient {
  Tensor slots;   // [v], i32
  Tensor rows;    // [n], i32, n = min(v, tokens per step): rows of the table (id - first_row)
  Tensor count;   // [1], i32: slots in use
  Tensor values;  // [n, h], f32; the first row of a slot overwrites it
  Tensor ids;     // [s, b], i32
  Tensor dy;      // [s, b, h]
  std::int64_t first_row = 0;
};

// dtable[rows[slot]] += values[slot] for the slots in use; then all slots are free again.
struct SparseEmbeddingJoin {
  Tensor dtable;  // [v, h], f32
  Tensor slots, rows, count, values;
};

OpCost cost(const EmbeddingForward& op);
OpCost cost(const AddPositions& op);
OpCost cost(const EmbeddingGradient& op);
OpCost cost(const SparseEmbeddingGradient& op);
OpCost cost(const SparseEmbeddingJoin& op);

void embedding_forward(Context& context, const EmbeddingForward& op);
void add_positions(Context& context, const AddPositions& op);
void embedding_gradient(Context& context, const EmbeddingGradient& op);
void sparse_embedding_gradient(Context& context, const SparseEmbeddingGradient& op);
void sparse_embedding_join(Context& context, const SparseEmbeddingJoin& op);

}  // namespace phalanx::ops
