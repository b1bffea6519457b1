#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {

void execute(const CudaContext& context, const ops::Fill& op) {
  fill(context, address_of(op.x), op.x.count(), op.value);
}

void execute(const CudaContext& context, const ops::Copy& op) {
  const TypedAddress to = address_of(op.destination);
  const TypedAddress from = address_of(op.source);
  if (op.destination.contiguous() && op.source.contiguous()) {
    return convert(context, to, from, op.source.count());
  }
  StridedShape shape;
  shape.dims = op.source.shape.rank();
  PHALANX_CHECK(shape.dims <= static_cast<int>(shape.extents.size()), "a copy of {} dimensions",
                shape.dims);
  for (int d = 0; d < shape.dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    shape.extents[i] = op.source.shape[d];
    shape.destination[i] = op.destination.strides[d];
    shape.source[i] = op.source.strides[d];
  }
  copy_strided(context, to, from, shape);
}

void execute(const CudaContext& context, const ops::Accumulate& op) {
  accumulate(context, address_of(op.destination), address_of(op.source), op.source.count());
}

void execute(const CudaContext& context, const ops::Scale& op) {
  scale(context, address_of(op.y), address_of(op.x), op.x.count(), op.factor);
}

}  // namespace phalanx::cuda
