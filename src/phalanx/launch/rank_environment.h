#pragma once
// The environment of a rank: torchrun's variables, and those with which it finds the coordinator.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/launch/attempt.h"

namespace phalanx::launch {

std::vector<std::pair<std::string, std::string>> rank_environment(const AttemptSetup& setup,
                                                                  const NodeGroup& group,
                                                                  int local_rank);

// Variables of the launcher's environment that its ranks must not get.
std::vector<std::string> dropped_variables();

// The file to which a rank writes the error that ended it; empty without logs.
std::filesystem::path error_file(const AttemptSetup& setup, int rank);

}  // namespace phalanx::launch
