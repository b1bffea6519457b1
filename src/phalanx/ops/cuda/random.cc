#include "phalanx/ops/cuda/random.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/random-inl.h"

namespace phalanx::cuda {
namespace {

template <template <typename> typename Kernel>
void draw(const char* name, const CudaContext& context, const DrawCall& call, double factor) {
  const DrawnBox box{call.rows,           call.columns,   call.row_stride,
                     call.global_columns, call.first_row, call.first_column,
                     call.parameter,      call.key.low,   call.key.high};
  with_storage(name, call.x.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = Kernel<T>;
    launch<Instance>(context.queue, {ceil_div(call.rows * call.columns, Instance::kThreads)},
                     {box, as<T>(call.x), factor});
  });
}

}  // namespace

void normal(const CudaContext& context, const DrawCall& call, double deviation) {
  draw<NormalKernel>("normal", context, call, deviation);
}

void uniform(const CudaContext& context, const DrawCall& call, double bound) {
  draw<UniformKernel>("uniform", context, call, bound);
}

}  // namespace phalanx::cuda
