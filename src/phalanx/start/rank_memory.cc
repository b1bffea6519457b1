#include "phalanx/start/rank_memory.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace phalanx {

RankFacts facts_of(const MemoryPlan& plan) {
  return {.parameters = plan.model_parameters,
          .bytes = plan.bytes,
          .library_bound = plan.library_bound,
          .disk = disk_traffic(plan.transfers)};
}

std::string to_text(const RankFacts& facts) {
  return fmt::format("{} {} {} {} {}", facts.parameters, fmt::join(facts.bytes.rows, " "),
                     facts.library_bound, facts.disk.read, facts.disk.written);
}

std::istream& operator>>(std::istream& text, RankFacts& facts) {
  text >> facts.parameters;
  for (std::int64_t& bytes : facts.bytes.rows) text >> bytes;
  return text >> facts.library_bound >> facts.disk.read >> facts.disk.written;
}

std::vector<RankMemory> memory_of_ranks(std::span<const RankFacts> facts) {
  std::vector<RankMemory> memory;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    const RankFacts& own = facts[rank];
    auto same = std::ranges::find_if(memory, [&](const RankMemory& known) {
      return known.bytes == own.bytes && known.library_bound == own.library_bound;
    });
    if (same == memory.end()) same = memory.insert(same, {own.bytes, own.library_bound, {}});
    same->ranks.push_back(static_cast<int>(rank));
  }
  return memory;
}

std::string ranks_text(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", ranks[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i > 2 ? "-" : ", ", ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace phalanx
