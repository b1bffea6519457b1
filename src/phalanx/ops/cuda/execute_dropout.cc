#include "phalanx/ops/cuda/dropout.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

DropoutCall call_of(const Dropout& dropout, const RowCoordinates& rows, const Shape& shape) {
  PHALANX_CHECK(dropout.first_feature % 4 == 0, "dropout of features from {} on",
                dropout.first_feature);
  return {shape[0] * shape[1],
          shape[2],
          dropout.probability,
          dropout.key,
          dropout.site,
          address_as<std::int64_t>(rows.sample),
          address_as<std::int32_t>(rows.position),
          dropout.first_feature};
}

}  // namespace

void execute(const CudaContext& context, const ops::BiasDropoutResidual& op) {
  bias_dropout_residual(context, call_of(op.dropout, op.rows, op.x.shape), address_of(op.out),
                        address_of(op.x), address_of(op.bias), address_of(op.residual));
}

void execute(const CudaContext& context, const ops::DropoutBackward& op) {
  dropout_backward(context, call_of(op.dropout, op.rows, op.dx.shape), address_of(op.dx),
                   address_of(op.dout));
}

void execute(const CudaContext& context, const ops::Jitter& op) {
  const Dropout coordinates{.probability = 0.0, .key = op.key, .site = op.site};
  jitter(context, call_of(coordinates, op.rows, op.x.shape), op.epsilon, address_of(op.y),
         address_of(op.x));
}

}  // namespace phalanx::cuda
