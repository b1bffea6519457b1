#pragma once
// How far a run goes and what it reads, from where it begins: counted in consumed samples, so it
// does not matter of what size the batches were before.

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
  // An evaluation of this very iteration was given up: it comes before anything else.
  bool evaluation_is_due = false;
};

class RunLength {
 public:
  // Iterations of one batch, one after the other.
  struct Stretch {
    std::int64_t begin = 0;             // the iterations that are done before
    std::int64_t consumed_samples = 0;  // by them
    std::int64_t iterations = 0;
    std::int64_t global_batch = 0;
    std::int64_t end() const { return begin + iterations; }
  };

  // Of a resolved configuration. One without --train-iters and --train-samples (a plan's) has no
  // iterations.
  explicit RunLength(const TrainConfig& config, const RunPosition& begin = {});

  const RunPosition& begin() const { return begin_; }
  // The run ends after this iteration: begin().iteration where nothing is left to train. Of
  // --train-samples only whole batches are trained: it ends before the first one that is too large.
  std::int64_t last_iteration() const {
    return stretches_.empty() ? begin_.iteration : stretches_.back().end();
  }
  // Of --train-samples, what is too little for another global batch and is not trained.
  std::int64_t left_over() const { return left_over_; }
  // Whether the validation data is evaluated after this iteration, the last evaluation apart.
  bool evaluates_after(std::int64_t iteration) const;
  // Samples of the iteration that begins when this many have been consumed.
  std::int64_t global_batch(std::int64_t consumed_samples) const {
    return batches_.at(consumed_samples);
  }
  // Samples of every iteration of an evaluation: the last batch of the schedule's.
  std::int64_t evaluation_batch() const { return batches_.last(); }
  const BatchSchedule& batches() const { return batches_; }
  // What the run trains, from its begin to its end; neighbours have different batches.
  const std::vector<Stretch>& stretches() const { return stretches_; }
  // The stretch that begins after this iteration, unless it is the run's first.
  const Stretch* change_after(std::int64_t iteration) const;
  // The next iteration behind this one after which the batch changes or the run ends.
  std::int64_t end_of_stretch(std::int64_t iteration) const;

  // What the flags ask of each split in a run from the beginning: the counts that decide the order
  // of a new run's data. As in Megatron, iterations count as if all had the largest batch.
  SampleCounts requested() const;
  // What this run reads up to: the samples consumed before it, and its own.
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
