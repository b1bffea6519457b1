#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& /*device*/, const ops::Adam& op, const Tensor& /*scratch*/) {
  if (read_scalar(op.skip) != 0.0) return;
  const Array gradient = read(op.gradient);
  const double factor = read_scalar(op.factor);
  const auto step = static_cast<double>(op.step);
  const double correction1 = 1.0 - std::pow(op.beta1, step);
  const double correction2 = 1.0 - std::pow(op.beta2, step);
  Array weight = read(op.weight);
  Array m = read(op.exp_avg);
  Array v = read(op.exp_avg_sq);
  for (std::int64_t i = 0; i < weight.shape[0]; ++i) {
    const double g = gradient(i) * factor;
    m(i) = op.beta1 * m(i) + (1.0 - op.beta1) * g;
    v(i) = op.beta2 * v(i) + (1.0 - op.beta2) * g * g;
    const double update = (m(i) / correction1) / (std::sqrt(v(i) / correction2) + op.epsilon);
    weight(i) -= op.lr * (update + op.weight_decay * weight(i));
  }
  write(op.weight, weight);
  write(op.exp_avg, m);
  write(op.exp_avg_sq, v);
  if (op.storage) write(op.storage, read(op.weight));
}

void execute(RefDevice& /*device*/, const ops::Sgd& op, const Tensor& /*scratch*/) {
  if (read_scalar(op.skip) != 0.0) return;
  const Array gradient = read(op.gradient);
  const double factor = read_scalar(op.factor);
  Array weight = read(op.weight);
  const bool has_momentum = static_cast<bool>(op.momentum_buffer);
  Array buffer = has_momentum ? read(op.momentum_buffer) : gradient;
  for (std::int64_t i = 0; i < weight.shape[0]; ++i) {
    const double g = gradient(i) * factor + op.weight_decay * weight(i);
    buffer(i) = has_momentum ? op.momentum * buffer(i) + g : g;
    weight(i) -= op.lr * buffer(i);
  }
  write(op.weight, weight);
  if (has_momentum) write(op.momentum_buffer, buffer);
  if (op.storage) write(op.storage, read(op.weight));
}

}  // namespace phalanx::ref
