#pragma once
// The plan of a rank's memory as a text for people.

#include <string>
#include <vector>

#include "phalanx/mesh/parallel_grids.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// A line for each row of the plan, and what belongs to them.
std::string memory_table(const MemoryPlan& plan);

// The first rank of each place in the model, by stage.
std::vector<int> ranks_of_places(const ParallelGrids& grids);

}  // namespace phalanx
