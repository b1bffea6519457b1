#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/permute.h"

namespace phalanx::cuda {

void execute(const CudaContext& context, const ops::SortPairs& op) {
  sort_pairs(context,
             {address_as<std::int32_t>(op.offsets), address_as<std::int32_t>(op.pair_of_row),
              address_as<std::int32_t>(op.row_of_pair)},
             address_as<std::int32_t>(op.chosen), op.chosen.count(),
             {.first = op.first,
              .experts = op.offsets.shape[0] - 1,
              .all = op.all_experts(),
              .padded = op.padded});
}

void execute(const CudaContext& context, const ops::PermuteRows& op) {
  permute_rows(context, {op.to.shape[0], op.from.shape[0], op.k, op.from.shape[1]}, rows_of(op.to),
               rows_of(op.from), address_as<std::int32_t>(op.pair_of_row),
               address_as<float>(op.probabilities));
}

void execute(const CudaContext& context, const ops::UnpermuteRows& op) {
  unpermute_rows(context, {op.rows.shape[0], op.y.shape[0], op.row_of_pair.shape[1], op.y.shape[1]},
                 rows_of(op.y), rows_of(op.rows), address_as<std::int32_t>(op.row_of_pair),
                 address_as<float>(op.probabilities));
}

void execute(const CudaContext& context, const ops::PairDots& op) {
  pair_dots(context, {op.rows.shape[0], op.x.shape[0], op.row_of_pair.shape[1], op.x.shape[1]},
            address_as<float>(op.dots), rows_of(op.rows), rows_of(op.x),
            address_as<std::int32_t>(op.row_of_pair));
}

void execute(const CudaContext& context, const ops::GatherElements& op) {
  gather_elements(context, address_as<float>(op.to), op.to.count(), address_as<float>(op.from),
                  op.from.count(), address_as<std::int32_t>(op.index));
}

}  // namespace phalanx::cuda
