#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/ops/fault.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whether a row counts; if so, its target must be a token.
bool counts(const Array& mask, const Integers& targets, std::int64_t row, std::int64_t vocabulary) {
  if (!mask.values.empty() && mask(row) == 0.0) return false;
  ops::expect_in_range<ops::CrossEntropy>(row, targets(row), vocabulary);
  return true;
}

// How many of the columns from first_column on are tokens.
std::int64_t token_columns(std::int64_t first_column, std::int64_t columns,
                           std::int64_t vocabulary) {
  return std::clamp<std::int64_t>(vocabulary - first_column, 0, columns);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::CrossEntropy& op, const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Integers targets = read_integers(op.targets);
  const Array mask = read(op.mask);
  const double seed = op.dlogits ? read_scalar(op.seed) : 0.0;
  Array loss(op.loss.shape);
  Array dlogits(logits.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    if (!counts(mask, targets, r, op.vocabulary)) continue;
    double largest = -kInfinity;
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

void execute(RefDevice& /*device*/, const ops::CrossEntropyStatistics& op,
             const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Integers targets = read_integers(op.targets);
  const Array mask = read(op.mask);
  const std::int64_t tokens = token_columns(op.first_column, logits.shape[1], op.vocabulary);
  Array statistics(op.statistics.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    if (!counts(mask, targets, r, op.vocabulary)) continue;
    double& largest = statistics(0, r);
    largest = -kInfinity;
    for (std::int64_t v = 0; v < tokens; ++v) largest = std::max(largest, logits(r, v));
    for (std::int64_t v = 0; v < tokens; ++v) {
      // -infinity - (-infinity) has no value.
      if (logits(r, v) != -kInfinity) statistics(1, r) += std::exp(logits(r, v) - largest);
    }
    const std::int64_t target = targets(r) - op.first_column;
    if (target >= 0 && target < tokens) statistics(2, r) = logits(r, target);
  }
  write(op.statistics, statistics);
}

void execute(RefDevice& /*device*/, const ops::VocabularyParallelCrossEntropy& op,
             const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Array statistics = read(op.statistics);
  const Integers targets = read_integers(op.targets);
  const Array mask = read(op.mask);
  const double seed = op.dlogits ? read_scalar(op.seed) : 0.0;
  const std::int64_t ranks = statistics.shape[0];
  const std::int64_t tokens = token_columns(op.first_column, logits.shape[1], op.vocabulary);
  Array loss(op.loss.shape);
  Array dlogits(logits.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    if (!counts(mask, targets, r, op.vocabulary)) continue;
    double largest = -kInfinity;
    for (std::int64_t k = 0; k < ranks; ++k) largest = std::max(largest, statistics(k, 0, r));
    double sum = 0.0;
    double at_target = 0.0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      sum += statistics(k, 1, r) * std::exp(statistics(k, 0, r) - largest);
      at_target += statistics(k, 2, r);
    }
    const double log_sum = largest + std::log(sum);
    loss(r) = log_sum - at_target;
    for (std::int64_t v = 0; op.dlogits && v < tokens; ++v) {
      const double onehot = op.first_column + v == targets(r) ? 1.0 : 0.0;
      dlogits(r, v) = seed * mask(r) * (std::exp(logits(r, v) - log_sum) - onehot);
    }
  }
  write(op.loss, loss);
  if (op.dlogits) write(op.dlogits, dlogits);
}

void execute(RefDevice& /*device*/, const ops::LabelMask& op, const Tensor& /*scratch*/) {
  const Integers labels = read_integers(op.labels);
  Array mask(op.mask.shape);
  for (std::int64_t r = 0; r < mask.shape[0]; ++r) mask(r) = labels(r) >= 0 ? 1.0 : 0.0;
  write(op.mask, mask);
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
