#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/random.h"

namespace phalanx::cuda {
namespace {

template <typename Op>
DrawCall call_of(const Op& op) {
  return {address_of(op.x), op.x.shape[0],   op.x.shape[1], op.x.strides[0], op.global_columns,
          op.first_row,     op.first_column, op.key,        op.parameter};
}

}  // namespace

void execute(const CudaContext& context, const ops::Normal& op) {
  normal(context, call_of(op), op.deviation);
}

void execute(const CudaContext& context, const ops::Uniform& op) {
  uniform(context, call_of(op), op.bound);
}

}  // namespace phalanx::cuda
