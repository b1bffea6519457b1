#pragma once
// --snapshot-fraction where it is not given: how much memory a save's copies of the states get.

#include <cstdint>
#include <span>

#include "phalanx/base/machine.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {

// The share of the states' bytes for a host whose ranks save `saved_bytes` and need `needed` bytes:
// at most half of what is free goes to them.
double snapshot_share(std::int64_t saved_bytes, std::int64_t needed, std::int64_t available);

// By all processes at the same time: decides it for each host, and plans it for this process's
// ranks. `needed`: what this process needs without it.
void plan_snapshots(RankRunner& runner, std::int64_t needed, const AvailableMemory& available,
                    std::span<RankPlan> plans);

}  // namespace phalanx
