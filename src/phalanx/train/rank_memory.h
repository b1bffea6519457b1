#pragma once
// The memory plans of all ranks of a run, also of those of other processes, for people.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/train/launcher.h"
#include "phalanx/train/memory_plan.h"

namespace phalanx {

// The classes of a plan's bytes, as `phalanx plan --json` calls them.
inline constexpr std::array<std::string_view, 9> kMemoryClasses = {
    "parameters", "main_parameters", "gradients", "optimizer",    "saved",
    "workspace",  "communication",   "total",     "library_bound"};
using MemoryBytes = std::array<std::int64_t, kMemoryClasses.size()>;
MemoryBytes bytes_of(const MemoryPlan& plan);

// Ranks whose bytes are the same.
struct RankMemory {
  MemoryBytes bytes{};
  std::vector<int> ranks;  // in order
};

// By their first ranks. By all processes at the same time, within Launcher::prepare().
std::vector<RankMemory> memory_of_all_ranks(Launcher& launcher, std::span<const RankPlan> own);

// "0-3, 8".
std::string ranks_text(std::span<const int> ranks);

}  // namespace phalanx
