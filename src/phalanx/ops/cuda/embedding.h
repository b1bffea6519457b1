#pragma once
// ops/embedding.h on a device.

#include "phalanx/ops/cuda/context.h"
#include "phalanx/ops/cuda/dropout.h"

namespace phalanx::cuda {

// Rows first_row .. first_row + rows - 1 of a table, or sums for them.
struct TableRows {
  TypedRows data;
  std::int64_t rows = 0;
  std::int64_t first_row = 0;
};

// The ids of a batch.
struct IdRows {
  const std::int32_t* ids = nullptr;  // [rows]
  std::int64_t rows = 0;              // below 2^32
  std::int64_t columns = 0;           // of what belongs to an id
};

// y[r] = table[ids[r]], dense; zeros for an id outside of the table.
void embedding_forward(const CudaContext& context, const IdRows& rows, TypedAddress y,
                       const TableRows& table);

// out = dropout(x + table[ids]), the sum rounded before dropout; out may be x. An id outside of the
// table is a fault; the kernel goes on with 0.
void add_positions(const CudaContext& context, const DropoutCall& call, TypedAddress out,
                   TypedAddress x, const TableRows& table, const std::int32_t* ids);

// dtable[ids[r]] += dy[r], rows in order; ids outside are passed over. dtable is f32, dy dense.
void embedding_gradient(const CudaContext& context, const IdRows& rows, const TableRows& dtable,
                        TypedAddress dy);

// The operands of ops::SparseEmbeddingGradient and ops::SparseEmbeddingJoin.
struct SparseSlots {
  std::int32_t* slots = nullptr;  // of the table's rows; -1: none
  std::int32_t* rows = nullptr;   // of slots
  std::int32_t* count = nullptr;  // slots in use
  std::int64_t most = 0;          // slots
  TypedRows values;               // [most, columns], f32
};
// More than `most` ids are a fault; those beyond are passed over.
void sparse_embedding_gradient(const CudaContext& context, const IdRows& rows,
                               const SparseSlots& sparse, std::int64_t table_rows,
                               std::int64_t first_row, TypedAddress dy);
void sparse_embedding_join(const CudaContext& context, const TableRows& dtable,
                           const SparseSlots& sparse, std::int64_t columns);

}  // namespace phalanx::cuda
