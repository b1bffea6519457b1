#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {

void execute(RefDevice& /*device*/, const ops::CrossEntropy& op, const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Integers targets = read_integers(op.targets);
  const Array mask = read(op.mask);
  const double seed = op.dlogits ? read_scalar(op.seed) : 0.0;
  Array loss(op.loss.shape);
  Array dlogits(logits.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    PHALANX_CHECK(targets(r) >= 0 && targets(r) < op.vocabulary, "target {} of a vocabulary of {}",
                  targets(r), op.vocabulary);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t v = 0; v < op.vocabulary; ++v) largest = std::max(largest, logits(r, v));
    double sum = 0.0;
    for (std::int64_t v = 0; v < op.vocabulary; ++v) sum += std::exp(logits(r, v) - largest);
    const double log_sum = largest + std::log(sum);
    loss(r) = log_sum - logits(r, targets(r));
    if (!op.dlogits) continue;
    for (std::int64_t v = 0; v < op.vocabulary; ++v) {
      const double onehot = v == targets(r) ? 1.0 : 0.0;
      dlogits(r, v) = seed * mask(r) * (std::exp(logits(r, v) - log_sum) - onehot);
    }
  }
  write(op.loss, loss);
  if (op.dlogits) write(op.dlogits, dlogits);
}

void execute(RefDevice& /*device*/, const ops::LossSeed& op, const Tensor& /*scratch*/) {
  double seed = read_scalar(op.loss_scale) * op.factor;
  if (op.mask) {
    double count = 0.0;
    for (const double value : read(op.mask).values) count += value;
    seed = count == 0.0 ? 0.0 : seed / count;
  }
  write_scalar(op.seed, seed);
}

void execute(RefDevice& /*device*/, const ops::LossAccumulate& op, const Tensor& /*scratch*/) {
  const Array loss = read(op.loss);
  const Array mask = read(op.mask);
  double sum = read_scalar(op.sum);
  double count = read_scalar(op.count);
  for (std::int64_t r = 0; r < loss.shape[0]; ++r) {
    sum += loss(r) * mask(r);
    count += mask(r);
  }
  write_scalar(op.sum, sum);
  write_scalar(op.count, count);
}

}  // namespace phalanx::ref
