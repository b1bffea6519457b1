#pragma once
// What all ranks of a pipeline do in the steps of a run: schedules, generated and verified, and the
// programs they are lowered to.

#include <cstdint>
#include <map>
#include <vector>

#include "phalanx/pipeline/schedule.h"
#include "phalanx/train/config.h"
#include "phalanx/train/run_length.h"

namespace phalanx {

// One schedule and a program for each pipeline rank.
struct PipelinePrograms {
  Schedule schedule;
  std::vector<Program> ranks;
};

struct StepPrograms {
  // By the number of iterations that a program covers: one; of an asynchronous schedule all between
  // two times the pipeline is empty.
  std::map<int, PipelinePrograms> training;
  PipelinePrograms evaluation;

  const Placement& placement() const { return evaluation.schedule.placement; }
};

// Of a run of this length. ConfigError where the schedule cannot run with these sizes, or cannot be
// trained with.
StepPrograms step_programs(const TrainConfig& config, const RunLength& length);
// Of a run from its beginning.
StepPrograms step_programs(const TrainConfig& config);

// How many iterations the pipeline runs from here until it is empty: one, or as an asynchronous
// schedule does until it must be (to evaluate, save, exit, and at --pipeline-drain-interval).
int iterations_until_drained(const TrainConfig& config, const RunLength& length,
                             std::int64_t iteration);

}  // namespace phalanx
