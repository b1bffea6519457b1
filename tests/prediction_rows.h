#pragma once
// The rows of tests/planner_rows with published steps, and their predictions.

#include <string>
#include <vector>

#include "phalanx/clock/machine.h"
#include "phalanx/clock/test_support.h"
#include "phalanx/planner/step_time.h"

namespace phalanx {

// A published step, planned as Phalanx would run it, with what its ranks do.
struct PlannedStep {
  std::string id;
  std::string stack;    // of software_stacks()
  std::string cluster;  // shipped
  std::string device;   // "a100", "h100"
  double seconds = 0.0;
  RunPlan plan;
  PredictedProgram program;
  PipelineTraces traces;
};

// Whether its configuration is known.
bool is_scored(const PlannerRow& row);
PlannedStep planned_step(const PlannerRow& row);
double predicted_seconds(const PlannedStep& step, const Machine& machine);

}  // namespace phalanx
