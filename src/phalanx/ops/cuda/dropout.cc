#include "phalanx/ops/cuda/dropout.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/dropout-inl.h"

namespace phalanx::cuda {
namespace {

DropoutPlan plan_of(const DropoutCall& call) {
  return {call.key.low,
          call.key.high,
          call.site,
          dropout_threshold(call.probability),
          static_cast<float>(1.0 / (1.0 - call.probability)),
          call.probability > 0.0};
}

DropoutShape shape_of(const DropoutCall& call, bool packed) {
  return {call.rows, call.columns, ceil_div(call.columns, 8), call.sample, call.position, packed};
}

Grid grid_of(const DropoutCall& call) {
  return {ceil_div(call.rows * ceil_div(call.columns, 8), ByEight::kThreads)};
}

}  // namespace

void bias_dropout_residual(const CudaContext& context, const DropoutCall& call, TypedAddress out,
                           TypedAddress x, TypedAddress bias, TypedAddress residual) {
  PHALANX_CHECK(out.type == residual.type && (!bias || bias.type == x.type),
                "bias_dropout_residual: {} and {}", name_of(out.type), name_of(residual.type));
  const bool packed = can_pack(call.columns, out, x, bias, residual);
  with_stream("bias_dropout_residual", x.type, out.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    launch<BiasDropoutResidualKernel<T, Stream>>(
        context.queue, grid_of(call),
        {plan_of(call), shape_of(call, packed), as<Stream>(out), as<const T>(x), as<const T>(bias),
         as<const Stream>(residual)});
  });
}

void dropout_backward(const CudaContext& context, const DropoutCall& call, TypedAddress dx,
                      TypedAddress dout) {
  const bool packed = can_pack(call.columns, dx, dout);
  with_stream("dropout_backward", dx.type, dout.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    launch<DropoutBackwardKernel<T, Stream>>(
        context.queue, grid_of(call),
        {plan_of(call), shape_of(call, packed), as<T>(dx), as<const Stream>(dout)});
  });
}

}  // namespace phalanx::cuda
