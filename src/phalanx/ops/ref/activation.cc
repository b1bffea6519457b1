#include <cmath>
#include <numbers>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

constexpr double kCubic = 0.044715;
const double kTanhScale = std::sqrt(2.0 / std::numbers::pi);

double gelu(ops::ActivationKind kind, double x) {
  if (kind == ops::ActivationKind::kGeluErf) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1.0 + std::tanh(kTanhScale * (x + kCubic * x * x * x)));
}

double gelu_derivative(ops::ActivationKind kind, double x) {
  if (kind == ops::ActivationKind::kGeluErf) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
  }
  const double tanh = std::tanh(kTanhScale * (x + kCubic * x * x * x));
  const double inner = kTanhScale * (1.0 + 3.0 * kCubic * x * x);
  return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::BiasActivationForward& op,
             const Tensor& /*scratch*/) {
  const Array x = read(op.x);
  const Array bias = read(op.bias);
  Array y(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      y(r, i) = gelu(op.kind, op.bias ? x(r, i) + bias(i) : x(r, i));
    }
  }
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::BiasActivationBackward& op,
             const Tensor& /*scratch*/) {
  const Array dy = read(op.dy);
  const Array x = read(op.x);
  const Array bias = read(op.bias);
  Array dx(x.shape);
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      dx(r, i) = dy(r, i) * gelu_derivative(op.kind, op.bias ? x(r, i) + bias(i) : x(r, i));
    }
  }
  write(op.dx, dx);
}

void execute(RefDevice& /*device*/, const ops::TanhForward& op, const Tensor& /*scratch*/) {
  Array y = read(op.x);
  for (double& value : y.values) value = std::tanh(value);
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::TanhBackward& op, const Tensor& /*scratch*/) {
  const Array y = read(op.y);
  Array dx = read(op.dy);
  for (std::size_t i = 0; i < dx.values.size(); ++i) {
    dx.values[i] *= 1.0 - y.values[i] * y.values[i];
  }
  write(op.dx, dx);
}

}  // namespace phalanx::ref
