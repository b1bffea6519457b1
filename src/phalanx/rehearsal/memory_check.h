#pragma once
// Whether a plan fits into the machine, before anything is allocated. populate_arenas.h sees what
// others take after that.

#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/base/machine.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// ConfigError where the `ranks` ranks of this machine need more than is available: both numbers,
// what limits, the table of the largest of `plans` and what to do. A warning with
// --allow-overcommit.
void check_memory(const TrainConfig& config, std::span<const RankPlan> plans, std::int64_t needed,
                  int ranks, const AvailableMemory& available);
// Likewise of inference, whose arenas have these bytes. `remedy`: "Give ..., or ...".
void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const AvailableMemory& available,
                  std::string_view remedy);

}  // namespace phalanx
