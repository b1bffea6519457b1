#include "phalanx/settings/run_length.h"

#include <algorithm>
#include <limits>

#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

using Stretch = RunLength::Stretch;

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

// A stretch from an iteration to the last; the batch decides how many iterations fit into the
// samples.
std::vector<Stretch> stretches_of(const BatchSchedule& batches, const RunConfig& run,
                                  std::int64_t iteration, std::int64_t consumed) {
  std::vector<Stretch> stretches;
  while (true) {
    const std::int64_t batch = batches.at(consumed);
    // The length of the stretch if the run did not end.
    const std::int64_t whole = batches.iterations_alike(consumed).value_or(kForever);
    const std::int64_t left = run.train_samples > 0 ? (run.train_samples - consumed) / batch
                                                    : run.train_iters - iteration;
    const std::int64_t iterations = std::min(whole, left);
    if (iterations <= 0) break;
    stretches.push_back({.begin = iteration,
                         .consumed_samples = consumed,
                         .iterations = iterations,
                         .global_batch = batch});
    iteration += iterations;
    consumed += iterations * batch;
    if (iterations < whole) break;
  }
  return stretches;
}

}  // namespace

RunLength::RunLength(const TrainConfig& config, const RunPosition& begin)
    : begin_(begin),
      batches_(batch_schedule(config)),
      train_iters_(config.run.train_iters),
      train_samples_(config.run.train_samples),
      eval_interval_(config.run.eval_interval),
      eval_iters_(config.run.eval_iters),
      stretches_(
          stretches_of(batches_, config.run, begin.iteration, begin.consumed_train_samples)) {
  begin_.evaluation_is_due = begin.evaluation_is_due && evaluates_after(begin.iteration);
  const auto from_zero = stretches_of(batches_, config.run, 0, 0);
  if (!from_zero.empty()) iterations_from_zero_ = from_zero.back().end();
  if (train_samples_ > 0) {
    left_over_ = std::max<std::int64_t>(0, train_samples_ - consumed_at_end());
  }
}

std::int64_t RunLength::consumed_at_end() const {
  if (stretches_.empty()) return begin_.consumed_train_samples;
  const Stretch& last = stretches_.back();
  return last.consumed_samples + samples_of(last.iterations, last.global_batch);
}

const Stretch* RunLength::change_after(std::int64_t iteration) const {
  const auto found = std::ranges::lower_bound(stretches_, iteration, {}, &Stretch::begin);
  const bool begins = found != stretches_.end() && found->begin == iteration;
  return begins && found != stretches_.begin() ? &*found : nullptr;
}

std::int64_t RunLength::end_of_stretch(std::int64_t iteration) const {
  const auto found = std::ranges::upper_bound(stretches_, iteration, {}, &Stretch::end);
  return found == stretches_.end() ? last_iteration() : found->end();
}

bool RunLength::evaluates_after(std::int64_t iteration) const {
  return eval_iters_ > 0 && eval_interval_ > 0 && iteration % eval_interval_ == 0;
}

SampleCounts RunLength::requested() const {
  SampleRequest request{.train_iters = iterations_from_zero_,
                        .global_batch = evaluation_batch(),
                        .eval_iters = eval_iters_};
  if (eval_interval_ > 0) request.eval_interval = eval_interval_;
  request.train_samples =
      train_samples_ > 0 ? train_samples_ : samples_of(train_iters_, batches_.largest());
  return requested_samples(request);
}

// The last one follows the last iteration, whether or not the interval divides that.
std::int64_t RunLength::evaluations() const {
  const std::int64_t at_intervals =
      eval_interval_ > 0 ? last_iteration() / eval_interval_ - begin_.iteration / eval_interval_
                         : 0;
  return at_intervals + (begin_.evaluation_is_due ? 1 : 0) + 1;
}

SampleCounts RunLength::needed() const {
  const std::int64_t evaluation = samples_of(eval_iters_, evaluation_batch());
  return {.train = consumed_at_end(),
          .valid = begin_.consumed_valid_samples + samples_of(evaluations(), evaluation),
          .test = evaluation};
}

}  // namespace phalanx
