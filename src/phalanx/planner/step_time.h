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
#include "phalanx/planner/prediction_basis.h"
#include "phalanx/planner/software_stack.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rehearsal/rank_trace.h"

namespace phalanx {

struct StepPrediction {
  std::string machine;  // the cluster's title
  std::string stack;    // "phalanx", or the name of other software
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
  PredictionBasis basis = {};
};

// What the ranks of the first pipeline do in a usual step; the others do the same at the same
// times.
struct PipelineTraces {
  StepPrograms programs;
  std::vector<RankTrace> ranks = {};
};
// ConfigError for an encoder with ranks of its own.
PipelineTraces trace_pipeline(const RunPlan& plan);

// What is predicted, where it is not Phalanx's own program.
struct PredictedProgram {
  const SoftwareStack* stack = nullptr;           // other software's; it must outlive the call
  std::optional<ProductType> products_type = {};  // of what layers multiply
  bool with_range = true;  // of the description's ranges, too; else low and high are the seconds
};

// Of a usual step of the plan's run. ConfigError where the description lacks what the run needs,
// and for an encoder with ranks of its own.
StepPrediction predict_step(const RunPlan& plan, const Machine& machine,
                            const PredictedProgram& program = {});
// With traces that exist: they do not depend on the machine.
StepPrediction predict_step(const RunPlan& plan, const PipelineTraces& traces,
                            const Machine& machine, const PredictedProgram& program = {});

// The value of "time" in the plan's JSON: {"stack", "seconds", "low", "high", "tokens_per_second",
// "mfu", "price", "breakdown": {"products", "attention", "memory", "exposed": {"tp", "cp", "ep",
// "pp", "dp"}, "bubble", "optimizer", "host", "disk"}, "critical_path": [{"rank", "action",
// "waits_for", "seconds"}], "origins": {"data-sheet": ["peak_bf16", ...], ...}, "unlike_measured":
// [...]}.
std::string to_json(const StepPrediction& prediction);
// The lines for people. `tokens`, where given: how long and how dear training with so many is;
// `of_tokens` is said of that.
std::string to_text(const StepPrediction& prediction, std::optional<double> tokens = std::nullopt,
                    std::string_view of_tokens = {});

}  // namespace phalanx
