#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/optimizer.h"

namespace phalanx::cuda {
namespace {

// What both rules have.
template <typename Op>
OptimizerCall common_of(const Op& op) {
  OptimizerCall call;
  call.segments = segments_of(op.table, op.first);
  call.settings = address_as<double>(op.settings);
  call.factor = address_as<float>(op.factor);
  call.skip = address_as<float>(op.skip);
  call.weight = address_as<float>(op.weight);
  call.storage = address_of(op.storage);
  call.gradient = address_as<float>(op.gradient);
  return call;
}

}  // namespace

void execute(const CudaContext& context, const ops::AdamSegments& op) {
  AdamCall call;
  call.common = common_of(op);
  call.exp_avg = address_as<float>(op.exp_avg);
  call.exp_avg_sq = address_as<float>(op.exp_avg_sq);
  call.corrections = address_as<double>(op.corrections);
  call.beta1 = op.beta1;
  call.beta2 = op.beta2;
  call.epsilon = op.epsilon;
  adam_segments(context, call);
}

void execute(const CudaContext& context, const ops::SgdSegments& op) {
  sgd_segments(context, {common_of(op), address_as<float>(op.momentum_buffer), op.momentum});
}

}  // namespace phalanx::cuda
