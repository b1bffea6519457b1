#pragma once
// The planned memory of all ranks of a run, including those of other processes, for the log and the
// report.

#include <array>
#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rehearsal/disk_time.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// The classes of a plan's bytes, as `phalanx plan --json` calls them.
inline constexpr std::array<std::string_view, 11> kMemoryClasses = {
    "parameters",    "main_parameters", "gradients", "optimizer", "saved",        "workspace",
    "communication", "constants",       "staging",   "total",     "library_bound"};
using MemoryBytes = std::array<std::int64_t, kMemoryClasses.size()>;

// Of one rank.
struct RankFacts {
  std::int64_t parameters = 0;  // without vocabulary padding
  MemoryBytes bytes{};
  DiskTraffic disk = {};  // of a step

  std::int64_t arena_bytes() const;  // "total"
};
RankFacts facts_of(const MemoryPlan& plan);
// Numbers between blanks, and back.
std::string to_text(const RankFacts& facts);
std::istream& operator>>(std::istream& text, RankFacts& facts);

// Ranks whose bytes are the same.
struct RankMemory {
  MemoryBytes bytes{};
  std::vector<int> ranks;  // in order
};
// Sorted by their first ranks; `facts` is by rank.
std::vector<RankMemory> memory_of_ranks(std::span<const RankFacts> facts);

// "0-3, 8".
std::string ranks_text(std::span<const int> ranks);

}  // namespace phalanx
