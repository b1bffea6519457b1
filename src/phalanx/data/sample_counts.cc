#include "phalanx/data/sample_counts.h"

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

void check_at_least(const char* flag, std::int64_t value, std::int64_t least) {
  if (value < least) throw ConfigError("{} {}: must be at least {}", flag, value, least);
}

}  // namespace

std::int64_t SampleCounts::of(SplitKind kind) const {
  switch (kind) {
    case SplitKind::kTrain:
      return train;
    case SplitKind::kValid:
      return valid;
    case SplitKind::kTest:
      return test;
  }
  return 0;
}

std::int64_t samples_of(std::int64_t batches, std::int64_t batch) {
  std::int64_t samples = 0;
  if (__builtin_mul_overflow(batches, batch, &samples)) {
    throw ConfigError("{} x {} samples are more than can be counted", batches, batch);
  }
  return samples;
}

SampleCounts requested_samples(const SampleRequest& request) {
  check_at_least("--train-iters", request.train_iters, 0);
  check_at_least("--global-batch-size", request.global_batch, 1);
  check_at_least("--eval-iters", request.eval_iters, 0);
  check_at_least("--eval-interval", request.eval_interval.value_or(1), 1);
  check_at_least("--train-samples", request.train_samples.value_or(0), 0);
  const std::int64_t evaluation = samples_of(request.eval_iters, request.global_batch);
  // Also after the last iteration, whether or not the interval divides it.
  const std::int64_t evaluations =
      request.eval_interval ? request.train_iters / *request.eval_interval + 1 : 1;
  return {.train = request.train_samples ? *request.train_samples
                                         : samples_of(request.train_iters, request.global_batch),
          .valid = samples_of(evaluations, evaluation),
          .test = evaluation};
}

}  // namespace phalanx
