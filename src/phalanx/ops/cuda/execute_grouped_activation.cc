#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/grouped_activation.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

template <typename Op>
GroupedActivationCall call_of(const Op& op, std::int64_t columns) {
  return {{address_as<std::int32_t>(op.offsets), op.offsets.shape[0] - 1, op.x.shape[0]},
          columns,
          op.kind,
          op.gated,
          rows_of(op.x),
          rows_of(op.bias),
          address_as<float>(op.probabilities)};
}

}  // namespace

void execute(const CudaContext& context, const ops::GroupedActivationForward& op) {
  grouped_activation_forward(context, call_of(op, op.y.shape[1]), rows_of(op.y));
}

void execute(const CudaContext& context, const ops::GroupedActivationBackward& op) {
  grouped_activation_backward(context, call_of(op, op.dy.shape[1]), rows_of(op.dx), rows_of(op.dy),
                              address_as<float>(op.dprobabilities));
}

}  // namespace phalanx::cuda
