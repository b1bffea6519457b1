#pragma once
// The plan of a rank's memory as a text for people.

#include <string>
#include <vector>

#include "phalanx/mesh/rank_grid.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// A line for each row of the plan, and what belongs to them.
std::string memory_table(const MemoryPlan& plan);

// The first data-parallel rank of each place in the model, pipeline ranks slowest.
std::vector<int> ranks_of_places(const RankGrid& grid);

}  // namespace phalanx
