#include "phalanx/planner/step_shapes.h"

#include <variant>

#include "phalanx/planner/step_time.h"

namespace phalanx {

WantedShapes step_shapes(const RunPlan& plan) {
  WantedShapes shapes;
  const PipelineTraces traces = trace_pipeline(plan);
  for (const RankTrace& trace : traces.ranks) {
    for (const Trace& events : trace.distinct) {
      for (const TraceEvent& event : events) {
        if (const auto* op = std::get_if<OpRun>(&event)) shapes.add(op->cost);
      }
    }
  }
  return shapes;
}

}  // namespace phalanx
