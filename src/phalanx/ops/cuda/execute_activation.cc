#include "phalanx/ops/cuda/activation.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

ActivationCall call_of(const Tensor& y, const Tensor& bias, ops::ActivationKind kind) {
  return {y.shape[0], y.shape[1], kind, address_of(bias)};
}

}  // namespace

void execute(const CudaContext& context, const ops::BiasActivationForward& op) {
  bias_activation_forward(context, call_of(op.y, op.bias, op.kind), address_of(op.y),
                          address_of(op.x));
}

void execute(const CudaContext& context, const ops::BiasActivationBackward& op) {
  bias_activation_backward(context, call_of(op.dx, op.bias, op.kind), address_of(op.dx),
                           address_of(op.dy), address_of(op.x));
}

void execute(const CudaContext& context, const ops::GatedActivationForward& op) {
  gated_activation_forward(context, call_of(op.y, op.bias, op.kind), address_of(op.y),
                           address_of(op.x));
}

void execute(const CudaContext& context, const ops::GatedActivationBackward& op) {
  gated_activation_backward(context, call_of(op.dy, op.bias, op.kind), address_of(op.dx),
                            address_of(op.dy), address_of(op.x));
}

void execute(const CudaContext& context, const ops::TanhForward& op) {
  tanh_forward(context, address_of(op.y), address_of(op.x), op.x.count());
}

void execute(const CudaContext& context, const ops::TanhBackward& op) {
  tanh_backward(context, address_of(op.dx), address_of(op.dy), address_of(op.y), op.y.count());
}

}  // namespace phalanx::cuda
