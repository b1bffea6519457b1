#pragma once
// How far a run goes and what it reads, from where it begins: counted in consumed samples, so it
// does not matter of what size the batches were before.

#include <cstdint>

#include "phalanx/data/sample_counts.h"
#include "phalanx/train/config.h"

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
  // Of a resolved configuration. One without --train-iters and --train-samples (a plan's) has no
  // iterations.
  explicit RunLength(const TrainConfig& config, const RunPosition& begin = {});

  const RunPosition& begin() const { return begin_; }
  // The run ends after this iteration: begin().iteration where nothing is left to train.
  std::int64_t last_iteration() const { return last_; }
  // Of --train-samples, what is too little for another global batch and is not trained.
  std::int64_t left_over() const { return left_over_; }
  // Whether the validation data is evaluated after this iteration, the last evaluation apart.
  bool evaluates_after(std::int64_t iteration) const;
  // Samples of the iteration that begins when this many have been consumed.
  std::int64_t global_batch(std::int64_t consumed_samples) const;

  // What the flags ask of each split in a run from the beginning: the counts that decide the order
  // of a new run's data.
  SampleCounts requested() const;
  // What this run reads up to: the samples consumed before it, and its own.
  SampleCounts needed() const;

 private:
  std::int64_t evaluations() const;

  RunPosition begin_;
  std::int64_t batch_;
  std::int64_t train_iters_, train_samples_;  // by the flags; 0: not given
  std::int64_t eval_interval_, eval_iters_;
  std::int64_t last_ = 0;
  std::int64_t left_over_ = 0;
};

}  // namespace phalanx
