#pragma once
// Whether a plan fits into the machine, before anything is allocated. What other programs take
// after that, populate_arenas.h finds out.

#include <cstdint>
#include <span>
#include <string_view>

#include "phalanx/base/machine.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// ConfigError if the `ranks` ranks of this machine need more than is available. It has both
// numbers, what sets the limit, the table of the largest of `plans`, and what to do. With
// --allow-overcommit a warning.
void check_memory(const TrainConfig& config, std::span<const RankPlan> plans, std::int64_t needed,
                  int ranks, const AvailableMemory& available);
// The same for inference, whose arenas have these bytes. `remedy`: "Give ..., or ...".
void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const AvailableMemory& available,
                  std::string_view remedy);

}  // namespace phalanx
