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
// The same for the memory of a device on which one rank computes, of which `free` bytes are free.
void check_device_memory(const TrainConfig& config, const MemoryPlan& plan, std::int64_t free);
// What a plan has in the memory of the rank's device, if that is not the host.
std::int64_t device_bytes(const MemoryPlan& plan);
// The same for inference, whose arenas have these bytes, on the machine or a device. `remedy`:
// "Give ..., or ...".
void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const DeviceChoice& device,
                  std::string_view remedy);
void check_memory(bool allow_overcommit, std::int64_t arena_bytes, const AvailableMemory& available,
                  std::string_view remedy, std::string_view whose = "this machine's");

}  // namespace phalanx
