#include "phalanx/start/rank_affinity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// The variable by which the user has told OpenMP itself where threads run.
std::string openmp_variable() {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    if (std::getenv(name) != nullptr) return name;
  }
  return "";
}

std::string ranks_text(const std::vector<std::vector<int>>& cores) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> texts;
  for (const auto& some : cores) texts.push_back(cores_text(some));
  const bool is_long = texts.size() > kListed;
  const std::string last = texts.back();
  if (is_long) texts.resize(kListed - 1);
  return fmt::format("ranks on cores {}{}", fmt::join(texts, ", "),
                     is_long ? ", ..., " + last : "");
}

}  // namespace

void RankAffinity::bind(int local_rank) const {
  if (cores.empty()) return;
  const auto& mine = cores[static_cast<std::size_t>(local_rank)];
  if (!bind_thread(mine)) {
    log_warning("local rank {} cannot be bound to cores {}: it runs where the system lets it",
                local_rank, cores_text(mine));
  }
}

std::vector<int> RankAffinity::all() const {
  std::vector<int> together;
  for (const auto& some : cores) together.insert(together.end(), some.begin(), some.end());
  return together;
}

RankAffinity rank_affinity(const LayoutConfig& layout) {
  return rank_affinity(layout, cores_of_thread(), usable_cores().count, openmp_variable());
}

RankAffinity rank_affinity(const LayoutConfig& layout, std::span<const int> usable, int limit,
                           const std::string& variable) {
  if (layout.no_cpu_affinity) return {{}, "none (--no-cpu-affinity)"};
  if (!variable.empty()) return {{}, fmt::format("left to OpenMP ({} is set)", variable)};
  const auto ranks = static_cast<int>(ranks_on_machine(layout));
  const auto threads = static_cast<int>(layout.threads_per_rank);
  if (ranks == 1) return {{}, "none (one rank runs where the system lets it)"};
  if (layout.threads_per_rank * ranks > std::min<std::int64_t>(limit, std::ssize(usable))) {
    return {{}, "none (there are more threads than cores)"};
  }
  RankAffinity affinity;
  for (int rank = 0; rank < ranks; ++rank) {
    affinity.cores.push_back(cores_of_rank(usable, ranks, rank, threads));
    if (affinity.cores.back().empty()) return {{}, "none (the ranks leave cores to others)"};
  }
  affinity.text = ranks_text(affinity.cores);
  return affinity;
}

}  // namespace phalanx
