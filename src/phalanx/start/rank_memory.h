#pragma once
// What the plans say about all ranks of a run, also those of other processes, for people.

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "phalanx/rehearsal/disk_time.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

struct RankFacts {
  std::int64_t parameters = 0;  // without vocabulary padding
  MemoryBytes bytes;
  std::int64_t library_bound = 0;
  DiskTraffic disk = {};  // of a step
};
RankFacts facts_of(const MemoryPlan& plan);
// Numbers between blanks, and back.
std::string to_text(const RankFacts& facts);
std::istream& operator>>(std::istream& text, RankFacts& facts);

// Ranks whose bytes are the same.
struct RankMemory {
  MemoryBytes bytes;
  std::int64_t library_bound = 0;
  std::vector<int> ranks;  // in order
};
// By their first ranks; `facts` by rank.
std::vector<RankMemory> memory_of_ranks(std::span<const RankFacts> facts);

// "0-3, 8".
std::string ranks_text(std::span<const int> ranks);

}  // namespace phalanx
