#include "phalanx/ops/cuda/random.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/random-inl.h"

namespace phalanx::cuda {

void normal(const CudaContext& context, const NormalCall& call) {
  with_storage("normal", call.x.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = NormalKernel<T>;
    launch<Instance>(context.queue, {ceil_div(call.rows * call.columns, Instance::kThreads)},
                     {as<T>(call.x), call.rows, call.columns, call.row_stride, call.global_columns,
                      call.first_row, call.first_column, call.parameter, call.key.low,
                      call.key.high, call.deviation});
  });
}

}  // namespace phalanx::cuda
