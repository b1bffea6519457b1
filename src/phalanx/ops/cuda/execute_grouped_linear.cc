#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/grouped_linear.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

GroupedRows groups_of(const Tensor& offsets, const Tensor& rows) {
  return {address_as<std::int32_t>(offsets), offsets.shape[0] - 1, rows.shape[0]};
}

GroupedMatrices matrices_of(const Tensor& stacked) {
  return {address_of(stacked), stacked.strides[0], stacked.shape[1], stacked.shape[2]};
}

}  // namespace

void execute(const CudaContext& context, const ops::GroupedLinearForward& op) {
  grouped_linear_forward(context, groups_of(op.offsets, op.x), rows_of(op.y), rows_of(op.x),
                         matrices_of(op.weight), rows_of(op.bias),
                         address_as<float>(op.bias_factors));
}

void execute(const CudaContext& context, const ops::GroupedLinearInputGradient& op) {
  grouped_linear_input_gradient(context, groups_of(op.offsets, op.dy), rows_of(op.dx),
                                rows_of(op.dy), matrices_of(op.weight));
}

void execute(const CudaContext& context, const ops::GroupedLinearWeightGradient& op) {
  grouped_linear_weight_gradient(context, groups_of(op.offsets, op.dy), matrices_of(op.dweight),
                                 rows_of(op.dy), rows_of(op.x), op.accumulate);
}

void execute(const CudaContext& context, const ops::GroupedBiasGradient& op) {
  grouped_bias_gradient(context, groups_of(op.offsets, op.dy), rows_of(op.dbias), rows_of(op.dy),
                        op.dy.shape[1], address_as<float>(op.factors), op.accumulate);
}

void execute(const CudaContext& context, const ops::GroupedBiasDots& op) {
  grouped_bias_dots(context, groups_of(op.offsets, op.dy), address_as<float>(op.dots),
                    rows_of(op.dy), rows_of(op.bias), op.dy.shape[1]);
}

}  // namespace phalanx::cuda
