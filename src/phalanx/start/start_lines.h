#pragma once
// The lines that a run prints before its first step: Megatron's in their order, where they have a
// meaning here, and our own.

#include <span>
#include <string>
#include <vector>

#include "phalanx/metrics/timing_log.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {

// `plan` is the first rank's; `times` are those of the preparation.
std::vector<std::string> start_lines(const RunSetup& setup, const MemoryPlan& plan,
                                     std::int64_t loaded_iteration,
                                     std::span<const TimerRow> times);

}  // namespace phalanx
