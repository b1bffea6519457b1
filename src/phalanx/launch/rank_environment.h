#pragma once
// torchrun's variables for a rank, and those by which it finds the coordinator.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/launch/attempt.h"

namespace phalanx::launch {

std::vector<std::pair<std::string, std::string>> rank_environment(const AttemptSetup& setup,
                                                                  const NodeGroup& group,
                                                                  int local_rank);

// Of the launcher's own environment, what must not reach its ranks.
std::vector<std::string> dropped_variables();

// Where a rank leaves the error that ended it; empty without logs.
std::filesystem::path error_file(const AttemptSetup& setup, int rank);

}  // namespace phalanx::launch
