#include "phalanx/train/rank_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace phalanx {

MemoryBytes bytes_of(const MemoryPlan& plan) {
  return {plan.parameters, plan.main_parameters, plan.gradients, plan.optimizer,    plan.saved,
          plan.workspace,  plan.communication,   plan.total,     plan.library_bound};
}

std::vector<RankMemory> memory_of_all_ranks(Launcher& launcher, std::span<const RankPlan> own) {
  std::string mine;
  for (const RankPlan& plan : own) {
    for (const int rank : plan.ranks) {
      mine += fmt::format("{} ", rank);
      for (const std::int64_t bytes : bytes_of(plan.memory)) mine += fmt::format("{} ", bytes);
    }
  }
  std::map<MemoryBytes, std::vector<int>> ranks_by_bytes;
  for (const std::string& text : launcher.gather(mine)) {
    std::istringstream numbers(text);
    for (int rank = 0; numbers >> rank;) {
      MemoryBytes bytes{};
      for (std::int64_t& one : bytes) numbers >> one;
      ranks_by_bytes[bytes].push_back(rank);
    }
  }
  std::vector<RankMemory> memory;
  for (auto& [bytes, ranks] : ranks_by_bytes) {
    std::ranges::sort(ranks);
    memory.push_back({bytes, std::move(ranks)});
  }
  std::ranges::sort(memory, {}, [](const RankMemory& one) { return one.ranks.front(); });
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
