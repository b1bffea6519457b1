#pragma once
// The shapes of a step's products and attention on every rank of a pipeline.

#include "phalanx/clock/wanted_shapes.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

WantedShapes step_shapes(const RunPlan& plan);

}  // namespace phalanx
