#include <algorithm>
#include <cmath>
#include <numbers>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

constexpr double kCubic = 0.044715;
const double kTanhScale = std::sqrt(2.0 / std::numbers::pi);

double value(ops::ActivationKind kind, double x) {
  switch (kind) {
    case ops::ActivationKind::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(kTanhScale * (x + kCubic * x * x * x)));
    case ops::ActivationKind::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case ops::ActivationKind::kRelu:
      return std::max(x, 0.0);
    case ops::ActivationKind::kSquaredRelu:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case ops::ActivationKind::kSilu:
      return x / (1.0 + std::exp(-x));
  }
  return 0.0;
}

// The ReLU's derivative at 0 is 0.
double derivative(ops::ActivationKind kind, double x) {
  switch (kind) {
    case ops::ActivationKind::kGeluTanh: {
      const double tanh = std::tanh(kTanhScale * (x + kCubic * x * x * x));
      const double inner = kTanhScale * (1.0 + 3.0 * kCubic * x * x);
      return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner;
    }
    case ops::ActivationKind::kGeluErf: {
      const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case ops::ActivationKind::kRelu:
      return x > 0.0 ? 1.0 : 0.0;
    case ops::ActivationKind::kSquaredRelu:
      return 2.0 * std::max(x, 0.0);
    case ops::ActivationKind::kSilu: {
      const double sigmoid = 1.0 / (1.0 + std::exp(-x));
      return sigmoid * (1.0 + x * (1.0 - sigmoid));
    }
  }
  return 0.0;
}

// x + bias, or x.
Array biased(const Tensor& x_tensor, const Tensor& bias_tensor) {
  Array x = read(x_tensor);
  const Array bias = read(bias_tensor);
  for (std::int64_t r = 0; bias_tensor && r < x.shape[0]; ++r) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) x(r, i) += bias(i);
  }
  return x;
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::BiasActivationForward& op,
             const Tensor& /*scratch*/) {
  Array y = biased(op.x, op.bias);
  for (double& element : y.values) element = value(op.kind, element);
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::BiasActivationBackward& op,
             const Tensor& /*scratch*/) {
  const Array x = biased(op.x, op.bias);
  Array dx = read(op.dy);
  for (std::size_t i = 0; i < dx.values.size(); ++i) {
    dx.values[i] *= derivative(op.kind, x.values[i]);
  }
  write(op.dx, dx);
}

void execute(RefDevice& /*device*/, const ops::GatedActivationForward& op,
             const Tensor& /*scratch*/) {
  const Array x = biased(op.x, op.bias);
  Array y(op.y.shape);
  const std::int64_t n = y.shape[1];
  for (std::int64_t r = 0; r < y.shape[0]; ++r) {
    for (std::int64_t i = 0; i < n; ++i) y(r, i) = value(op.kind, x(r, i)) * x(r, n + i);
  }
  write(op.y, y);
}

void execute(RefDevice& /*device*/, const ops::GatedActivationBackward& op,
             const Tensor& /*scratch*/) {
  const Array x = biased(op.x, op.bias);
  const Array dy = read(op.dy);
  Array dx(x.shape);
  const std::int64_t n = dy.shape[1];
  for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
    for (std::int64_t i = 0; i < n; ++i) {
      dx(r, i) = dy(r, i) * x(r, n + i) * derivative(op.kind, x(r, i));
      dx(r, n + i) = dy(r, i) * value(op.kind, x(r, i));
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
