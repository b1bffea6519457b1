#include "phalanx/ops/cuda/activation.h"
#include "phalanx/ops/cuda/column_sums.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/linear.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

void sum_columns(const CudaContext& context, const Tensor& sums, const Tensor& dy,
                 bool accumulate) {
  column_sums(context, address_as<float>(sums), address_of(dy), dy.shape[0], dy.shape[1],
              dy.strides[0], accumulate);
}

}  // namespace

void execute(const CudaContext& context, const ops::LinearForward& op) {
  const LinearShape shape{op.x.shape[0], op.y.shape[1], op.x.shape[1]};
  linear_forward(context, shape, address_of(op.y), address_of(op.x), address_of(op.weight),
                 address_of(op.bias));
  if (!op.activation.activated) return;
  bias_activation_forward(context,
                          {shape.rows, shape.n, op.activation.kind, address_of(op.activation.bias)},
                          address_of(op.activation.activated), address_of(op.y));
}

void execute(const CudaContext& context, const ops::LinearInputGradient& op) {
  const LinearShape shape{op.dy.shape[0], op.dy.shape[1], op.dx.shape[1]};
  const TypedAddress dx = address_of(op.dx);
  linear_input_gradient(context, shape, dx, address_of(op.dy), address_of(op.weight));
  if (!op.activation.x) return;
  bias_activation_backward(
      context, {shape.rows, shape.k, op.activation.kind, address_of(op.activation.bias)}, dx, dx,
      address_of(op.activation.x));
}

void execute(const CudaContext& context, const ops::LinearWeightGradient& op) {
  const LinearShape shape{op.x.shape[0], op.dy.shape[1], op.x.shape[1]};
  linear_weight_gradient(context, shape, address_as<float>(op.dweight), address_of(op.dy),
                         address_of(op.x), op.accumulate);
  if (op.dbias) sum_columns(context, op.dbias, op.dy, op.accumulate);
}

void execute(const CudaContext& context, const ops::BiasGradient& op) {
  sum_columns(context, op.dbias, op.dy, op.accumulate);
}

}  // namespace phalanx::cuda
