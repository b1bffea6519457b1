#pragma once
// How long a step takes on a machine that need not be there: the programs of one pipeline are
// played on the planning backend, priced with the machine's description, and clocked.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/clock/machine.h"
#include "phalanx/clock/program_clock.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

struct StepPrediction {
  std::string machine;  // the cluster's title
  int devices = 1;
  double seconds = 0.0;
  // Where every number that is a range lies at the end that is best, or worst.
  double low = 0.0;
  double high = 0.0;
  double tokens_per_second = 0.0;
  double mfu = 0.0;  // model FLOPs by the devices' peak in the type of the model's products
  std::optional<double> price = {};  // of a step
  // Of the rank of the pipeline that waits least; the sum is `seconds`.
  std::array<double, kTimeParts> parts = {};
  int rank = 0;  // which that is, of the world
  std::vector<CriticalStep> critical_path = {};
  std::vector<int> world_ranks = {};  // by rank of the pipeline
  Timeline timeline = {};             // of its passes, in seconds
  // States lie in files, and no --disk-bandwidth says what their transfers take.
  bool leaves_out_files = false;
  // The numbers of the description that are assumed.
  std::vector<std::string> assumed = {};
};

// Of a usual step of the plan's run. ConfigError where the description lacks what the run needs,
// and for an encoder with ranks of its own.
StepPrediction predict_step(const RunPlan& plan, const Machine& machine);

// The value of "time" in the plan's JSON: {"seconds", "low", "high", "tokens_per_second", "mfu",
// "price", "breakdown": {"products", "attention", "memory", "exposed": {"tp", "cp", "ep", "pp",
// "dp"}, "bubble", "optimizer", "host", "disk"}, "critical_path": [{"rank", "action", "waits_for",
// "seconds"}]}.
std::string to_json(const StepPrediction& prediction);
// The lines for people. `tokens`, where given: how long and how dear training with so many is.
std::string to_text(const StepPrediction& prediction, std::optional<double> tokens = std::nullopt);

}  // namespace phalanx
