#pragma once
// How far a run goes and which samples it reads. Everything is counted in consumed samples, so the
// sizes of earlier batches do not matter.

#include <cstdint>
#include <optional>
#include <vector>

#include "phalanx/data/sample_counts.h"
#include "phalanx/settings/batch_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Where a run is among its iterations and samples.
struct RunPosition {
  std::int64_t iteration = 0;
  std::int64_t consumed_train_samples = 0;
  std::int64_t consumed_valid_samples = 0;
  // The evaluation after this iteration was given up; it is made before anything else.
  bool evaluation_is_due = false;
};

class RunLength {
 public:
  // Consecutive iterations with the same global batch.
  struct Stretch {
    std::int64_t begin = 0;             // iterations before the stretch
    std::int64_t consumed_samples = 0;  // samples that they consumed
    std::int64_t iterations = 0;
    std::int64_t global_batch = 0;
    std::int64_t end() const { return begin + iterations; }
  };

  // `config` is resolved. Without --train-iters and --train-samples (in a plan) there are no
  // iterations.
  explicit RunLength(const TrainConfig& config, const RunPosition& begin = {});

  const RunPosition& begin() const { return begin_; }
  // The last iteration of the run; begin().iteration if nothing is left to train. --train-samples
  // is rounded down to whole batches.
  std::int64_t last_iteration() const {
    return stretches_.empty() ? begin_.iteration : stretches_.back().end();
  }
  // The part of --train-samples that does not fill a global batch and is not trained.
  std::int64_t left_over() const { return left_over_; }
  // Whether the validation data is evaluated after this iteration. The evaluation at the end of the
  // run does not count.
  bool evaluates_after(std::int64_t iteration) const;
  // The global batch of the iteration that begins after this many consumed samples.
  std::int64_t global_batch(std::int64_t consumed_samples) const {
    return batches_.at(consumed_samples);
  }
  // The global batch of evaluations: the last one of the schedule.
  std::int64_t evaluation_batch() const { return batches_.last(); }
  const BatchSchedule& batches() const { return batches_; }
  // The stretches that the run trains, in order; neighbours have different batches.
  const std::vector<Stretch>& stretches() const { return stretches_; }
  // The stretch that begins after this iteration; none for the run's first stretch.
  const Stretch* change_after(std::int64_t iteration) const;
  // The next iteration after which the batch changes or the run ends.
  std::int64_t end_of_stretch(std::int64_t iteration) const;

  // The samples that a new run asks of each split. These counts decide the order of its data. As in
  // Megatron, iterations count as if all had the largest batch.
  SampleCounts requested() const;
  // The samples up to the end of this run: those consumed before it, and its own.
  SampleCounts needed() const;

 private:
  std::int64_t evaluations() const;
  std::int64_t consumed_at_end() const;

  RunPosition begin_;
  BatchSchedule batches_;
  std::int64_t train_iters_, train_samples_;  // by the flags; 0: not given
  std::int64_t eval_interval_, eval_iters_;
  std::vector<Stretch> stretches_;
  std::int64_t iterations_from_zero_ = 0;
  std::int64_t left_over_ = 0;
};

}  // namespace phalanx
