#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/reduce.h"

namespace phalanx::cuda {

void execute(const CudaContext& context, const ops::SquareSumSegments& op) {
  square_sum_segments(context, {segments_of(op.table, op.first), address_as<double>(op.sums),
                                address_as<float>(op.x)});
}

void execute(const CudaContext& context, const ops::ZeroCountSegments& op) {
  zero_count_segments(context, {segments_of(op.table, op.first), address_as<double>(op.counts),
                                address_as<float>(op.x)});
}

void execute(const CudaContext& context, const ops::TotalSegments& op) {
  total_segments(context, segments_of(op.table, 0), address_as<double>(op.totals),
                 address_as<double>(op.x));
}

void execute(const CudaContext& context, const ops::Total& op) {
  total(context, address_as<double>(op.sum), address_as<double>(op.x), op.x.count());
}

void execute(const CudaContext& context, const ops::GradientFactor& op) {
  gradient_factor(
      context,
      {address_as<float>(op.norm), address_as<float>(op.factor), address_as<float>(op.skip),
       address_as<double>(op.square_sums), op.square_sums.count(), address_as<double>(op.tokens),
       address_as<double>(op.expected_tokens), address_as<float>(op.loss_scale), op.clip,
       address_as<double>(op.checked), op.checked ? op.checked.count() : 0});
}

}  // namespace phalanx::cuda
