// Activations as ops of their own; the forms are activation-inl.h's. Hyperbolic tangents are of a
// few rows alone (a pooled token of each sample), so they go one by one in double, without vectors.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/activation.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cpu/activation_blocks-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// body(r, begin, count) for blocks of all rows.
template <typename Body>
HWY_INLINE void for_blocks(const CpuDevice& device, std::int64_t rows, std::int64_t columns,
                           const Body& body) {
  const Blocks blocks = row_blocks(rows, columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      for (std::int64_t c = 0; c < columns; c += kColumnBlock) {
        body(r, c, std::min(kColumnBlock, columns - c));
      }
    }
  });
}

template <typename T>
void forward(const CpuDevice& device, const ops::BiasActivationForward& op) {
  const auto x = rows_of<T>(op.x);
  const auto y = rows_of<T>(op.y);
  const T* bias = dense<T>(op.bias);
  const BlockForm form = form_of(op.kind);
  for_blocks(device, op.x.shape[0], op.x.shape[1],
             [&](std::int64_t r, std::int64_t c, std::int64_t count) HWY_ATTR {
               FloatBlock block;
               read(x[r] + c, offset(bias, c), count, block);
               form.value(count, block);
               write(block, count, y[r] + c);
             });
}

template <typename T>
void backward(const CpuDevice& device, const ops::BiasActivationBackward& op) {
  const auto x = rows_of<T>(op.x);
  const auto dy = rows_of<T>(op.dy);
  const auto dx = rows_of<T>(op.dx);
  const T* bias = dense<T>(op.bias);
  const BlockForm form = form_of(op.kind);
  for_blocks(device, op.x.shape[0], op.x.shape[1],
             [&](std::int64_t r, std::int64_t c, std::int64_t count) HWY_ATTR {
               FloatBlock block, gradient;
               read(x[r] + c, offset(bias, c), count, block);
               read<T>(dy[r] + c, nullptr, count, gradient);
               form.derivative(count, block);
               multiply(count, gradient, block);
               write(gradient, count, dx[r] + c);
             });
}

// The left half of x holds the gates, the right half what they let through.
template <typename T>
void gated_forward(const CpuDevice& device, const ops::GatedActivationForward& op) {
  const std::int64_t columns = op.y.shape[1];
  const auto x = rows_of<T>(op.x);
  const auto y = rows_of<T>(op.y);
  const T* bias = dense<T>(op.bias);
  const BlockForm form = form_of(op.kind);
  for_blocks(device, op.x.shape[0], columns,
             [&](std::int64_t r, std::int64_t c, std::int64_t count) HWY_ATTR {
               FloatBlock gate, up;
               read(x[r] + c, offset(bias, c), count, gate);
               read(x[r] + columns + c, offset(bias, columns + c), count, up);
               form.value(count, gate);
               multiply(count, gate, up);
               write(gate, count, y[r] + c);
             });
}

template <typename T>
void gated_backward(const CpuDevice& device, const ops::GatedActivationBackward& op) {
  const std::int64_t columns = op.dy.shape[1];
  const auto x = rows_of<T>(op.x);
  const auto dy = rows_of<T>(op.dy);
  const auto dx = rows_of<T>(op.dx);
  const T* bias = dense<T>(op.bias);
  const BlockForm form = form_of(op.kind);
  for_blocks(device, op.x.shape[0], columns,
             [&](std::int64_t r, std::int64_t c, std::int64_t count) HWY_ATTR {
               FloatBlock gate, slope, up, gradient;
               read(x[r] + c, offset(bias, c), count, gate);
               read(x[r] + columns + c, offset(bias, columns + c), count, up);
               read<T>(dy[r] + c, nullptr, count, gradient);
               form.both(count, gate, slope);
               multiply(count, slope, up);
               multiply(count, slope, gradient);
               multiply(count, gate, gradient);
               write(slope, count, dx[r] + c);
               write(gate, count, dx[r] + columns + c);
             });
}

void bias_activation_forward(const CpuDevice& device, const ops::BiasActivationForward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR { forward<decltype(type)>(device, op); });
}
void bias_activation_backward(const CpuDevice& device, const ops::BiasActivationBackward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR { backward<decltype(type)>(device, op); });
}
void gated_activation_forward(const CpuDevice& device, const ops::GatedActivationForward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR { gated_forward<decltype(type)>(device, op); });
}
void gated_activation_backward(const CpuDevice& device, const ops::GatedActivationBackward& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR { gated_backward<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(BiasActivationForward, bias_activation_forward)
PHALANX_KERNEL(BiasActivationBackward, bias_activation_backward)
PHALANX_KERNEL(GatedActivationForward, gated_activation_forward)
PHALANX_KERNEL(GatedActivationBackward, gated_activation_backward)

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
