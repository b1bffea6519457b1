#include "phalanx/train/run_length.h"

#include <algorithm>

namespace phalanx {

RunLength::RunLength(const TrainConfig& config, const RunPosition& begin)
    : begin_(begin),
      batch_(config.layout.global_batch_size),
      train_iters_(config.run.train_iters),
      train_samples_(config.run.train_samples),
      eval_interval_(config.run.eval_interval),
      eval_iters_(config.run.eval_iters) {
  begin_.evaluation_is_due = begin.evaluation_is_due && evaluates_after(begin.iteration);
  if (train_samples_ > 0) {
    const std::int64_t left =
        std::max<std::int64_t>(0, train_samples_ - begin.consumed_train_samples);
    last_ = begin.iteration + left / batch_;
    left_over_ = left % batch_;
  } else {
    last_ = std::max(begin.iteration, train_iters_);
  }
}

std::int64_t RunLength::global_batch(std::int64_t /*consumed_samples*/) const { return batch_; }

bool RunLength::evaluates_after(std::int64_t iteration) const {
  return eval_iters_ > 0 && eval_interval_ > 0 && iteration % eval_interval_ == 0;
}

SampleCounts RunLength::requested() const {
  SampleRequest request{.train_iters = train_samples_ > 0 ? train_samples_ / batch_ : train_iters_,
                        .global_batch = batch_,
                        .eval_iters = eval_iters_};
  if (eval_interval_ > 0) request.eval_interval = eval_interval_;
  if (train_samples_ > 0) request.train_samples = train_samples_;
  return requested_samples(request);
}

// The last one follows the last iteration, whether or not the interval divides that.
std::int64_t RunLength::evaluations() const {
  const std::int64_t at_intervals =
      eval_interval_ > 0 ? last_ / eval_interval_ - begin_.iteration / eval_interval_ : 0;
  return at_intervals + (begin_.evaluation_is_due ? 1 : 0) + 1;
}

SampleCounts RunLength::needed() const {
  const std::int64_t evaluation = samples_of(eval_iters_, batch_);
  return {.train = begin_.consumed_train_samples + samples_of(last_ - begin_.iteration, batch_),
          .valid = begin_.consumed_valid_samples + samples_of(evaluations(), evaluation),
          .test = evaluation};
}

}  // namespace phalanx
