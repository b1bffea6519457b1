// GeLU as an op of its own; the forms are gelu-inl.h's. Hyperbolic tangents are of a few rows alone
// (a pooled token of each sample), so they go one by one in double, without vectors.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/activation.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/gelu-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Calls row(r) for all rows and biased(lanes, r, i) gives x + bias.
template <typename T, typename Body>
HWY_INLINE void for_biased(const CpuDevice& device, const Tensor& x_tensor,
                           const Tensor& bias_tensor, const Body& body) {
  const std::int64_t columns = x_tensor.shape[1];
  const auto x = rows_of<T>(x_tensor);
  const T* bias = dense<T>(bias_tensor);
  const Blocks blocks = row_blocks(x_tensor.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const T* row = x[r];
      if (bias == nullptr) {
        for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
          body(r, i, lanes, lanes.load(row + i));
        });
      } else {
        for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
          body(r, i, lanes, hn::Add(lanes.load(row + i), lanes.load(bias + i)));
        });
      }
    }
  });
}

template <typename Form, typename T>
void forward(const CpuDevice& device, const ops::BiasActivationForward& op) {
  const auto y = rows_of<T>(op.y);
  for_biased<T>(device, op.x, op.bias,
                [&](std::int64_t r, std::int64_t i, auto lanes, FloatVector biased)
                    HWY_ATTR { lanes.store(Form::value(biased), y[r] + i); });
}

template <typename Form, typename T>
void backward(const CpuDevice& device, const ops::BiasActivationBackward& op) {
  const auto dx = rows_of<T>(op.dx);
  const auto dy = rows_of<T>(op.dy);
  for_biased<T>(device, op.x, op.bias,
                [&](std::int64_t r, std::int64_t i, auto lanes, FloatVector biased) HWY_ATTR {
                  const auto gradient = hn::Mul(lanes.load(dy[r] + i), Form::derivative(biased));
                  lanes.store(gradient, dx[r] + i);
                });
}

void bias_activation_forward(const CpuDevice& device, const ops::BiasActivationForward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR {
    if (op.kind == ops::ActivationKind::kGeluErf)
      return forward<ErfGelu, decltype(type)>(device, op);
    forward<TanhGelu, decltype(type)>(device, op);
  });
}
void bias_activation_backward(const CpuDevice& device, const ops::BiasActivationBackward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR {
    if (op.kind == ops::ActivationKind::kGeluErf)
      return backward<ErfGelu, decltype(type)>(device, op);
    backward<TanhGelu, decltype(type)>(device, op);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(bias_activation_forward);
HWY_EXPORT(bias_activation_backward);

namespace {

// body(i, T()) for every element of dense tensors of x's type.
template <typename Body>
void for_elements(const CpuDevice& device, const Tensor& x, const Body& body) {
  const Blocks blocks = element_blocks(x.count());
  const auto run = [&](auto type) {
    parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) body(i, type);
    });
  };
  switch (x.dtype) {
    case DType::kF32:
      return run(float());
    case DType::kBF16:
      return run(bfloat16());
    case DType::kF16:
      return run(float16());
    default:
      throw InternalError("tanh: the CPU takes f32, bf16 and f16, not {}", name_of(x.dtype));
  }
}

}  // namespace

void execute(CpuDevice& device, const ops::BiasActivationForward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(bias_activation_forward)(device, op);
}
void execute(CpuDevice& device, const ops::BiasActivationBackward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(bias_activation_backward)(device, op);
}

void execute(CpuDevice& device, const ops::TanhForward& op, const Tensor& /*scratch*/) {
  for_elements(device, op.x, [&](std::int64_t i, auto type) {
    using T = decltype(type);
    op.y.as<T>()[i] = narrow<T>(std::tanh(widen(op.x.as<T>()[i])));
  });
}
void execute(CpuDevice& device, const ops::TanhBackward& op, const Tensor& /*scratch*/) {
  for_elements(device, op.y, [&](std::int64_t i, auto type) {
    using T = decltype(type);
    const double y = widen(op.y.as<T>()[i]);
    op.dx.as<T>()[i] = narrow<T>(widen(op.dy.as<T>()[i]) * (1.0 - y * y));
  });
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
