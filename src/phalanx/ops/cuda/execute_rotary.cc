#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/rotary.h"

namespace phalanx::cuda {
namespace {

// [s, b, heads, d] or [s, b, groups, heads of a group, d].
HeadsOperand heads_of(const Tensor& x) {
  const int last = x.shape.rank() - 1;
  return {address_of(x), x.strides[0], x.strides[1], last == 4 ? x.strides[2] : 0,
          x.strides[last - 1]};
}

}  // namespace

void execute(const CudaContext& context, const ops::RotaryTable& op) {
  const std::vector<double> frequencies = ops::rotary_frequencies(op.rotary, DType::kF32);
  rotary_table(context, {address_as<float>(op.table), op.table.shape[0], frequencies,
                         op.rotary.interpolation, op.rotary.attention_factor});
}

void execute(const CudaContext& context, const ops::Rotate& op) {
  const int last = op.x.shape.rank() - 1;
  RotateCall call;
  call.y = heads_of(op.y);
  call.x = heads_of(op.x);
  call.rows = op.x.shape[0];
  call.batch = op.x.shape[1];
  call.groups = last == 4 ? op.x.shape[2] : 1;
  call.heads = op.x.shape[last - 1];
  call.width = op.x.shape[last];
  call.position = address_as<std::int32_t>(op.position);
  call.position_row_stride = op.position.strides[0];
  call.position_sample_stride = op.position.strides[1];
  call.table = address_as<float>(op.table);
  call.positions = op.table.shape[0];
  call.dimensions = op.table.shape[1];
  call.interleaved = op.interleaved;
  call.inverse = op.inverse;
  rotate(context, call);
}

}  // namespace phalanx::cuda
