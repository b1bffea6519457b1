#pragma once
// What all ranks of a pipeline do in the steps of a run: schedules, generated and verified, and the
// programs they are lowered to.

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

// What a program covers: one iteration; of an asynchronous schedule all between two times the
// pipeline is empty.
struct ProgramSize {
  int iterations = 1;    // 0: an evaluation's
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

  // The run's usual step: the shortest program of the last batch that it reaches.
  ProgramSize usual;

  const Placement& placement() const { return evaluation.schedule.placement; }
};

// Of a run of this length; of all batches where it has none, as a plan's. ConfigError where the
// schedule cannot run with these sizes, or cannot be trained with.
StepPrograms step_programs(const TrainConfig& config, const RunLength& length);
// Of a run from its beginning.
StepPrograms step_programs(const TrainConfig& config);

// How many iterations the pipeline runs from here until it is empty: one, or as an asynchronous
// schedule does until it must be (to evaluate, save, exit, for another batch, and at
// --pipeline-drain-interval).
int iterations_until_drained(const TrainConfig& config, const RunLength& length,
                             std::int64_t iteration);

}  // namespace phalanx
