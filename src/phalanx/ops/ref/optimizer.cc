#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

// The elements of a segment; an absent tensor stays one.
template <typename Op>
Tensor part_of(const Op& op, const Tensor& tensor, const ops::Segment& segment) {
  return tensor ? tensor.slice(0, segment.begin - op.first, segment.count) : Tensor{};
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::AdamSegments& op, const Tensor& /*scratch*/) {
  if (read_scalar(op.skip) != 0.0) return;
  const double factor = read_scalar(op.factor);
  const Array settings = read(op.settings);
  const Array corrections = read(op.corrections);
  for (const ops::Segment& segment : op.table.host) {
    const Tensor weights = part_of(op, op.weight, segment);
    const Array gradient = read(part_of(op, op.gradient, segment));
    const double lr = settings(segment.group, 0);
    const double decay = settings(segment.group, 1);
    Array weight = read(weights);
    Array m = read(part_of(op, op.exp_avg, segment));
    Array v = read(part_of(op, op.exp_avg_sq, segment));
    for (std::int64_t i = 0; i < segment.count; ++i) {
      const double g = gradient(i) * factor;
      m(i) = op.beta1 * m(i) + (1.0 - op.beta1) * g;
      v(i) = op.beta2 * v(i) + (1.0 - op.beta2) * g * g;
      const double root = std::sqrt(v(i)) * corrections(1) + op.epsilon;
      weight(i) -= lr * (m(i) * corrections(0) / root + decay * weight(i));
    }
    write(weights, weight);
    write(part_of(op, op.exp_avg, segment), m);
    write(part_of(op, op.exp_avg_sq, segment), v);
    if (op.storage) write(part_of(op, op.storage, segment), read(weights));
  }
}

void execute(RefDevice& /*device*/, const ops::SgdSegments& op, const Tensor& /*scratch*/) {
  if (read_scalar(op.skip) != 0.0) return;
  const double factor = read_scalar(op.factor);
  const Array settings = read(op.settings);
  const bool has_momentum = static_cast<bool>(op.momentum_buffer);
  for (const ops::Segment& segment : op.table.host) {
    const Tensor weights = part_of(op, op.weight, segment);
    const Array gradient = read(part_of(op, op.gradient, segment));
    Array weight = read(weights);
    Array buffer = has_momentum ? read(part_of(op, op.momentum_buffer, segment)) : gradient;
    for (std::int64_t i = 0; i < segment.count; ++i) {
      const double g = gradient(i) * factor + settings(segment.group, 1) * weight(i);
      buffer(i) = has_momentum ? op.momentum * buffer(i) + g : g;
      weight(i) -= settings(segment.group, 0) * buffer(i);
    }
    write(weights, weight);
    if (has_momentum) write(part_of(op, op.momentum_buffer, segment), buffer);
    if (op.storage) write(part_of(op, op.storage, segment), read(weights));
  }
}

}  // namespace phalanx::ref
