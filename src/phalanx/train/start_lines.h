#pragma once
// What a run says of itself before its first step: Megatron's lines in their order, where they mean
// something here, and ours.

#include <span>
#include <string>
#include <vector>

#include "phalanx/observe/timing_log.h"
#include "phalanx/train/run_setup.h"

namespace phalanx {

// `plan` is the first rank's, `times` are those of the preparation.
std::vector<std::string> start_lines(const RunSetup& setup, const MemoryPlan& plan,
                                     std::int64_t loaded_iteration,
                                     std::span<const TimerRow> times);

// The rows of the plan, for people.
std::string memory_table(const MemoryPlan& plan);

// The first data-parallel rank of each place in the model, pipeline ranks slowest.
std::vector<int> ranks_of_places(const RankGrid& grid);

}  // namespace phalanx
