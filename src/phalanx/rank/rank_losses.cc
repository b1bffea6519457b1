// The losses of a rank's steps: what each microbatch adds to, and what comes of it on all ranks.

#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rank/rank.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

double Rank::read_scalar(const Tensor& scalar) {
  if (scalar.dtype == DType::kF64) {
    double value = 0.0;
    context_.backend.read_back(context_.queue, scalar,
                               std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  float value = 0.0F;
  context_.backend.read_back(context_.queue, scalar, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

bool Rank::wants_loss_counts() const { return terms_.size() > 1 && !averages_microbatches(); }

// All stages read the same samples: each sums for itself.
void Rank::sum_loss_counts(const std::vector<double>& own) {
  if (!own.empty()) {
    PHALANX_CHECK(own.size() == terms_.size(), "counts of {} losses", own.size());
    context_.backend.upload(context_.queue, global_counts_, std::as_bytes(std::span(own)));
  }
  if (ranks_.tensor) ranks_.tensor->broadcast(context_, global_counts_, 0).wait(context_.queue);
  sum_over(context_, ranks_.data.get(), global_counts_);
  counts_.assign(terms_.size(), 1.0);
  context_.backend.read_back(context_.queue, global_counts_,
                             std::as_writable_bytes(std::span(counts_)));
}

// A microbatch that is masked throughout has no mean and is not counted. Ranks without the head
// leave zeros.
void Rank::average_microbatches() {
  const std::int64_t columns = microbatch_losses_.shape[2];
  std::vector<double> parts(static_cast<std::size_t>(microbatch_losses_.count()));
  context_.backend.read_back(context_.queue, microbatch_losses_,
                             std::as_writable_bytes(std::span(parts)));
  std::vector<double> sums(static_cast<std::size_t>(losses_.count()), 0.0);
  for (std::int64_t loss = 0; loss < std::ssize(terms_); ++loss) {
    for (std::int64_t m = 0; m < running_->program().microbatches; ++m) {
      const double sum = parts[static_cast<std::size_t>(2 * loss * columns + m)];
      const double count = parts[static_cast<std::size_t>((2 * loss + 1) * columns + m)];
      if (count == 0.0) continue;
      const std::int64_t update = m / microbatches_per_update_;
      sums[static_cast<std::size_t>(2 * loss * most_updates_ + update)] += sum / count;
      sums[static_cast<std::size_t>((2 * loss + 1) * most_updates_ + update)] += 1.0;
    }
  }
  context_.backend.upload(context_.queue, losses_, std::as_bytes(std::span(std::as_const(sums))));
}

// The stage that has the head knows the losses and their counts, the others add zeros.
void Rank::sum_over_data_and_stages(const Tensor& tensor) {
  sum_over(context_, ranks_.data.get(), tensor);
  sum_over(context_, ranks_.pipeline.get(), tensor);
}

void Rank::sum_losses() {
  if (averages_microbatches()) average_microbatches();
  sum_over_data_and_stages(losses_);
}

void Rank::sum_evaluation_counts() {
  context_.backend.upload(context_.queue, evaluation_counts_,
                          std::as_bytes(std::span(std::as_const(host_counts_))));
  sum_over_data_and_stages(evaluation_counts_);
  context_.backend.read_back(context_.queue, evaluation_counts_,
                             std::as_writable_bytes(std::span(host_counts_)));
}

Tensor Rank::loss_parts(std::size_t loss, LossPart part) const {
  const auto row = static_cast<std::int64_t>(2 * loss + static_cast<std::size_t>(part));
  return losses_.slice(0, row * most_updates_, most_updates_);
}

Tensor Rank::loss_part(std::size_t loss, LossPart part, std::int64_t update) const {
  return loss_parts(loss, part).slice(0, update, 1);
}

StepResult Rank::read_losses(std::int64_t first_update, std::int64_t updates) {
  StepResult result;
  for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
    double sum = 0.0;
    double count = 0.0;
    for (std::int64_t u = first_update; u < first_update + updates; ++u) {
      sum += read_scalar(loss_part(loss, LossPart::kSum, u));
      count += read_scalar(loss_part(loss, LossPart::kCount, u));
    }
    // What is trained divides by all microbatches, one that is masked throughout as well.
    if (averages_microbatches() && !running_->program().forward_only) {
      count = static_cast<double>(updates) * microbatches_of_update();
    }
    result.losses.push_back({.mean = count > 0.0 ? sum / count : 0.0, .count = count});
  }
  return result;
}

// With one loss a constant; the step's end knows what is unmasked.
double Rank::factor_of(std::size_t loss) const {
  if (!wants_loss_counts()) return 1.0 / tokens_per_update();
  // Nobody counts the losses of what is evaluated.
  if (loss >= counts_.size()) return 1.0;
  return counts_[loss] > 0.0 ? 1.0 / counts_[loss] : 0.0;
}

std::span<const nn::LossTerm> Rank::losses(int microbatch) {
  const std::int64_t update = microbatch / microbatches_per_update_;
  for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
    nn::LossTerm& term = terms_[loss];
    if (averages_microbatches()) {
      const Tensor parts = microbatch_losses_.select(0, static_cast<std::int64_t>(loss));
      term = {.sum = parts.select(0, 0).slice(0, microbatch, 1),
              .count = parts.select(0, 1).slice(0, microbatch, 1),
              .factor = 1.0 / microbatches_of_update()};
    } else {
      term = {.sum = loss_part(loss, LossPart::kSum, update),
              .count = loss_part(loss, LossPart::kCount, update),
              .factor = factor_of(loss)};
    }
  }
  return terms_;
}

// A loss that is not finite keeps the step from being made, as a gradient does that is not: all are
// divided by a scale that is no number. The next step sets it again.
void Rank::refuse_loss(std::int64_t update) {
  if (asynchronous_ || !checks_for_nan(config_)) return;
  const auto is_finite = [&](std::size_t loss) {
    return std::isfinite(read_scalar(loss_part(loss, LossPart::kSum, update)));
  };
  bool are_finite = true;
  for (std::size_t loss = 0; loss < terms_.size(); ++loss) {
    are_finite = are_finite && is_finite(loss);
  }
  if (are_finite) return;
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  ops::fill(context_, {.x = loss_scale_, .value = kNoNumber});
}

}  // namespace phalanx
