#include "phalanx/ops/cuda/activation.h"

#include "phalanx/ops/cuda/activation-inl.h"
#include "phalanx/ops/cuda/dispatch.h"

namespace phalanx::cuda {
namespace {

static_assert(static_cast<int>(Activation::kSilu) == static_cast<int>(ops::ActivationKind::kSilu) &&
              static_cast<int>(Activation::kRelu) == static_cast<int>(ops::ActivationKind::kRelu));

template <typename... Operands>
ActivationShape shape_of(const ActivationCall& call, const Operands&... operands) {
  PHALANX_CHECK(((operands.type == call.bias.type || !call.bias) && ...),
                "activation: a bias of {}", name_of(call.bias.type));
  return {call.rows, call.columns, ceil_div(call.columns, 8), static_cast<Activation>(call.kind),
          can_pack(call.columns, call.bias, operands...)};
}

Grid grid_of(const ActivationCall& call) {
  return {ceil_div(call.rows * ceil_div(call.columns, 8), ByEight::kThreads)};
}

void check_types(DType type, DType other) {
  PHALANX_CHECK(type == other, "activation: {} beside {}", name_of(other), name_of(type));
}

}  // namespace

void bias_activation_forward(const CudaContext& context, const ActivationCall& call, TypedAddress y,
                             TypedAddress x) {
  check_types(y.type, x.type);
  with_storage("bias_activation_forward", y.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<BiasActivationForwardKernel<T>>(
        context.queue, grid_of(call),
        {shape_of(call, y, x), as<T>(y), as<const T>(x), as<const T>(call.bias)});
  });
}

void bias_activation_backward(const CudaContext& context, const ActivationCall& call,
                              TypedAddress dx, TypedAddress dy, TypedAddress x) {
  check_types(dx.type, dy.type);
  check_types(dx.type, x.type);
  with_storage("bias_activation_backward", dx.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<BiasActivationBackwardKernel<T>>(context.queue, grid_of(call),
                                            {shape_of(call, dx, dy, x), as<T>(dx), as<const T>(dy),
                                             as<const T>(x), as<const T>(call.bias)});
  });
}

void gated_activation_forward(const CudaContext& context, const ActivationCall& call,
                              TypedAddress y, TypedAddress x) {
  check_types(y.type, x.type);
  with_storage("gated_activation_forward", y.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<GatedActivationForwardKernel<T>>(
        context.queue, grid_of(call),
        {shape_of(call, y, x), as<T>(y), as<const T>(x), as<const T>(call.bias)});
  });
}

void gated_activation_backward(const CudaContext& context, const ActivationCall& call,
                               TypedAddress dx, TypedAddress dy, TypedAddress x) {
  check_types(dx.type, dy.type);
  check_types(dx.type, x.type);
  with_storage("gated_activation_backward", dx.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<GatedActivationBackwardKernel<T>>(context.queue, grid_of(call),
                                             {shape_of(call, dx, dy, x), as<T>(dx), as<const T>(dy),
                                              as<const T>(x), as<const T>(call.bias)});
  });
}

void tanh_forward(const CudaContext& context, TypedAddress y, TypedAddress x, std::int64_t n) {
  check_types(y.type, x.type);
  with_storage("tanh_forward", y.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<TanhForwardKernel<T>>(context.queue, {ceil_div(n, ByEight::kElements)},
                                 {as<T>(y), as<const T>(x), n, can_pack(8, y, x)});
  });
}

void tanh_backward(const CudaContext& context, TypedAddress dx, TypedAddress dy, TypedAddress y,
                   std::int64_t n) {
  check_types(dx.type, dy.type);
  check_types(dx.type, y.type);
  with_storage("tanh_backward", dx.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<TanhBackwardKernel<T>>(
        context.queue, {ceil_div(n, ByEight::kElements)},
        {as<T>(dx), as<const T>(dy), as<const T>(y), n, can_pack(8, dx, dy, y)});
  });
}

}  // namespace phalanx::cuda
