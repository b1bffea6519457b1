#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/norm.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

bool has_places(const Tensor& x) { return x.shape.rank() == 3; }

NormShape shape_of(const Tensor& x) {
  return {x.shape[0], has_places(x) ? x.shape[1] : 1, x.shape.back()};
}

NormOperand operand_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {address_of(tensor), tensor.strides[0], has_places(tensor) ? tensor.strides[1] : 0};
}

template <typename Op>
NormForwardCall call_of(const Op& op) {
  NormForwardCall call;
  call.shape = shape_of(op.x);
  call.y = operand_of(op.y);
  call.x = operand_of(op.x);
  call.weight = address_of(op.weight);
  call.bias = address_of(op.bias);
  call.mean = address_as<float>(op.mean);
  call.rstd = address_as<float>(op.rstd);
  call.zero_centred = op.zero_centred;
  return call;
}

}  // namespace

void execute(const CudaContext& context, const ops::NormForward& op) {
  NormForwardCall call = call_of(op);
  call.epsilon = op.epsilon;
  norm_forward(context, call);
}

void execute(const CudaContext& context, const ops::NormApply& op) {
  norm_apply(context, call_of(op));
}

void execute(const CudaContext& context, const ops::NormBackward& op) {
  NormBackwardCall call;
  call.shape = shape_of(op.x);
  call.dx = operand_of(op.dx);
  call.dweight = address_as<float>(op.dweight);
  call.dbias = address_as<float>(op.dbias);
  call.dy = operand_of(op.dy);
  call.x = operand_of(op.x);
  call.mean = address_as<float>(op.mean);
  call.rstd = address_as<float>(op.rstd);
  call.weight = address_of(op.weight);
  call.zero_centred = op.zero_centred;
  call.residual = operand_of(op.residual);
  norm_backward(context, call);
}

}  // namespace phalanx::cuda
