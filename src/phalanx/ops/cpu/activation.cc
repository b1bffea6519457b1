// Activations as ops of their own; the forms are activation-inl.h's. Hyperbolic tangents are of a
// few rows alone (a pooled token of each sample), so they go one by one in double, without vectors.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/activation.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>

#include "phalanx/ops/cpu/activation-inl.h"
#include "phalanx/ops/cpu/execute.h"
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

// Calls body(r, i, lanes, gate, up) for all pairs of the halves of x, with their biases added.
template <typename T, typename Body>
HWY_INLINE void for_gated(const CpuDevice& device, const Tensor& x_tensor,
                          const Tensor& bias_tensor, const Body& body) {
  const std::int64_t columns = x_tensor.shape[1] / 2;
  const auto x = rows_of<T>(x_tensor);
  const T* bias = dense<T>(bias_tensor);
  const Blocks blocks = row_blocks(x_tensor.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const T* gates = x[r];
      for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
        auto gate = lanes.load(gates + i);
        auto up = lanes.load(gates + columns + i);
        if (bias != nullptr) {
          gate = hn::Add(gate, lanes.load(bias + i));
          up = hn::Add(up, lanes.load(bias + columns + i));
        }
        body(r, i, lanes, gate, up);
      });
    }
  });
}

template <typename Form, typename T>
void gated_forward(const CpuDevice& device, const ops::GatedActivationForward& op) {
  const auto y = rows_of<T>(op.y);
  for_gated<T>(device, op.x, op.bias,
               [&](std::int64_t r, std::int64_t i, auto lanes, FloatVector gate, FloatVector up)
                   HWY_ATTR { lanes.store(hn::Mul(Form::value(gate), up), y[r] + i); });
}

template <typename Form, typename T>
void gated_backward(const CpuDevice& device, const ops::GatedActivationBackward& op) {
  const std::int64_t columns = op.dy.shape[1];
  const auto dx = rows_of<T>(op.dx);
  const auto dy = rows_of<T>(op.dy);
  for_gated<T>(device, op.x, op.bias,
               [&](std::int64_t r, std::int64_t i, auto lanes, FloatVector gate, FloatVector up)
                   HWY_ATTR {
                     const auto gradient = lanes.load(dy[r] + i);
                     const auto slope = hn::Mul(up, Form::derivative(gate));
                     lanes.store(hn::Mul(gradient, slope), dx[r] + i);
                     lanes.store(hn::Mul(gradient, Form::value(gate)), dx[r] + columns + i);
                   });
}

// body(T(), Form()) with a storage type and the form of an activation.
template <typename Body>
HWY_INLINE void with_types(DType dtype, ops::ActivationKind kind, const Body& body) {
  with_storage(dtype, [&](auto type) HWY_ATTR {
    with_form(kind, [&](auto form) HWY_ATTR { body(type, form); });
  });
}

void bias_activation_forward(const CpuDevice& device, const ops::BiasActivationForward& op) {
  with_types(op.x.dtype, op.kind, [&](auto type, auto form) HWY_ATTR {
    forward<decltype(form), decltype(type)>(device, op);
  });
}
void bias_activation_backward(const CpuDevice& device, const ops::BiasActivationBackward& op) {
  with_types(op.x.dtype, op.kind, [&](auto type, auto form) HWY_ATTR {
    backward<decltype(form), decltype(type)>(device, op);
  });
}
void gated_activation_forward(const CpuDevice& device, const ops::GatedActivationForward& op) {
  with_types(op.x.dtype, op.kind, [&](auto type, auto form) HWY_ATTR {
    gated_forward<decltype(form), decltype(type)>(device, op);
  });
}
void gated_activation_backward(const CpuDevice& device, const ops::GatedActivationBackward& op) {
  with_types(op.x.dtype, op.kind, [&](auto type, auto form) HWY_ATTR {
    gated_backward<decltype(form), decltype(type)>(device, op);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(bias_activation_forward);
HWY_EXPORT(bias_activation_backward);
HWY_EXPORT(gated_activation_forward);
HWY_EXPORT(gated_activation_backward);

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
void execute(CpuDevice& device, const ops::GatedActivationForward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(gated_activation_forward)(device, op);
}
void execute(CpuDevice& device, const ops::GatedActivationBackward& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(gated_activation_backward)(device, op);
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
