#include <algorithm>
#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& /*device*/, const ops::SquareSum& op, const Tensor& /*scratch*/) {
  double sum = 0.0;
  for (const double value : read(op.x).values) sum += value * value;
  write_scalar(op.sum, sum);
}

void execute(RefDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  double average = 1.0 / read_scalar(op.loss_scale);
  if (op.tokens) {
    const double tokens = read_scalar(op.tokens);
    average = tokens == 0.0 ? 0.0 : op.expected_tokens / tokens * average;
  }
  double squares = 0.0;
  for (const double value : read(op.square_sums).values) squares += value;
  const double norm = std::sqrt(squares) * average;
  const double clipped = op.clip > 0.0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0;
  write_scalar(op.norm, norm);
  write_scalar(op.factor, average * clipped);
  write_scalar(op.skip, std::isfinite(norm) ? 0.0 : 1.0);
}

}  // namespace phalanx::ref
