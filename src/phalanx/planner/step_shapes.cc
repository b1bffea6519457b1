#include "phalanx/planner/step_shapes.h"

#include <variant>
#include <vector>

#include "phalanx/rank/step_programs.h"
#include "phalanx/rehearsal/rank_trace.h"

namespace phalanx {

WantedShapes step_shapes(const RunPlan& plan) {
  WantedShapes shapes;
  const StepPrograms programs = step_programs(plan.config);
  const std::vector<int> pipeline = plan.grids.dense.groups("pp").front();
  for (const int rank : pipeline) {
    const RankTrace trace = trace_rank(plan.config, *plan.model, programs, rank, plan.kernels);
    for (const Trace& events : trace.distinct) {
      for (const TraceEvent& event : events) {
        if (const auto* op = std::get_if<OpRun>(&event)) shapes.add(op->cost);
      }
    }
  }
  return shapes;
}

}  // namespace phalanx
