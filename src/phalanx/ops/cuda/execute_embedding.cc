#include "phalanx/ops/cuda/embedding.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

IdRows ids_of(const Tensor& ids, const Tensor& rows) {
  return {address_as<std::int32_t>(ids), ids.count(), rows.shape[2]};
}

TableRows table_of(const Tensor& table, std::int64_t first_row = 0) {
  return {rows_of(table), table.shape[0], first_row};
}

template <typename Op>
SparseSlots slots_of(const Op& op) {
  return {address_as<std::int32_t>(op.slots), address_as<std::int32_t>(op.rows),
          address_as<std::int32_t>(op.count), op.rows.shape[0], rows_of(op.values)};
}

}  // namespace

void execute(const CudaContext& context, const ops::EmbeddingForward& op) {
  embedding_forward(context, ids_of(op.ids, op.y), address_of(op.y),
                    table_of(op.table, op.first_row));
}

void execute(const CudaContext& context, const ops::AddPositions& op) {
  const Shape& shape = op.x.shape;
  add_positions(
      context,
      {shape[0] * shape[1], shape[2], op.dropout.probability, op.dropout.key, op.dropout.site,
       address_as<std::int64_t>(op.rows.sample), address_as<std::int32_t>(op.rows.position)},
      address_of(op.out), address_of(op.x), table_of(op.table), address_as<std::int32_t>(op.ids));
}

void execute(const CudaContext& context, const ops::EmbeddingGradient& op) {
  embedding_gradient(context, ids_of(op.ids, op.dy), table_of(op.dtable, op.first_row),
                     address_of(op.dy));
}

void execute(const CudaContext& context, const ops::SparseEmbeddingGradient& op) {
  sparse_embedding_gradient(context, ids_of(op.ids, op.dy), slots_of(op), op.slots.shape[0],
                            op.first_row, address_of(op.dy));
}

void execute(const CudaContext& context, const ops::SparseEmbeddingJoin& op) {
  sparse_embedding_join(context, table_of(op.dtable), slots_of(op), op.dtable.shape[1]);
}

}  // namespace phalanx::cuda
