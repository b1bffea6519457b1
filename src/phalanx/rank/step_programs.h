#pragma once
// The programs of all ranks of a pipeline: schedules are generated and verified, then lowered.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "phalanx/pipeline/schedule.h"
#include "phalanx/settings/run_length.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// One schedule and a program for each pipeline rank.
struct PipelinePrograms {
  Schedule schedule;
  std::vector<Program> ranks;
};

// What a program covers: one iteration, or under an asynchronous schedule all iterations until the
// pipeline is empty again.
struct ProgramSize {
  int iterations = 1;    // 0: an evaluation
  int microbatches = 1;  // of each iteration, on one data-parallel rank

  friend bool operator==(const ProgramSize&, const ProgramSize&) = default;
  friend bool operator<(const ProgramSize& a, const ProgramSize& b) {
    return std::pair(a.iterations, a.microbatches) < std::pair(b.iterations, b.microbatches);
  }
};

struct StepPrograms {
  // For every global batch that the run reaches.
  std::map<ProgramSize, PipelinePrograms> training;
  PipelinePrograms evaluation;  // with the last global batch

  // The run's usual step: the shortest program of the last global batch.
  ProgramSize usual;

  const Placement& placement() const { return evaluation.schedule.placement; }
  // The most of any program; an evaluation has the sums of one.
  int most_updates() const;
};

// For a run of this length, or for all batches of the flags where the length is not known (a plan).
// ConfigError where the schedule cannot run with these sizes, or cannot train.
StepPrograms step_programs(const TrainConfig& config, const RunLength& length);
// For a run from its beginning.
StepPrograms step_programs(const TrainConfig& config);

// How many iterations the pipeline runs from here until it is empty. One, unless the schedule is
// asynchronous: then it is empty to evaluate, save or exit, where the batch changes, and at
// --pipeline-drain-interval.
int iterations_until_drained(const TrainConfig& config, const RunLength& length,
                             std::int64_t iteration);

// Whether something else than training follows the iteration by the flags or the run's length: an
// evaluation, a save, a comparison of replicas, another batch, the end.
bool pauses_after(const TrainConfig& config, const RunLength& length, std::int64_t iteration);

}  // namespace phalanx
