#include "phalanx/ops/cuda/dropout.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/dropout_plan.h"

namespace phalanx::cuda {

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

void jitter(const CudaContext& context, const DropoutCall& call, double epsilon, TypedAddress y,
            TypedAddress x) {
  const bool packed = can_pack(call.columns, y, x);
  launch<JitterKernel>(context.queue, grid_of(call),
                       {plan_of(call), shape_of(call, packed), static_cast<float>(epsilon),
                        as<float>(y), as<const float>(x)});
}

}  // namespace phalanx::cuda
