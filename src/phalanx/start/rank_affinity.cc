#include "phalanx/start/rank_affinity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/team.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

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

RankAffinity affinity_of_places(int ranks, int threads, const OpenMpPlaces& openmp) {
  if (!openmp.fault.empty()) {
    return {{}, fmt::format("none ({} is set, and {})", openmp.variable, openmp.fault)};
  }
  if (openmp.places.empty()) {
    return {{}, fmt::format("none ({} names no places)", openmp.variable)};
  }
  RankAffinity affinity;
  std::size_t next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int>& cores = affinity.cores.emplace_back();
    std::vector<std::vector<int>>& places = affinity.places.emplace_back();
    for (int thread = 0; thread < threads; ++thread) {
      const std::vector<int>& place = openmp.places[next++ % openmp.places.size()];
      places.push_back(place);
      cores.insert(cores.end(), place.begin(), place.end());
    }
    std::ranges::sort(cores);
    cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  }
  affinity.text = fmt::format("{} ({})", ranks_text(affinity.cores), openmp.variable);
  return affinity;
}

}  // namespace

void RankAffinity::bind(int local_rank) const {
  if (cores.empty()) return;
  const auto& mine = cores[static_cast<std::size_t>(local_rank)];
  if (!bind_thread(mine)) {
    log_warning("local rank {} cannot be bound to cores {}: it runs where the system lets it",
                local_rank, cores_text(mine));
  }
  if (!places.empty()) Team::mine().set_places(places[static_cast<std::size_t>(local_rank)]);
}

std::vector<int> RankAffinity::all() const {
  std::vector<int> together;
  for (const auto& some : cores) together.insert(together.end(), some.begin(), some.end());
  return together;
}

RankAffinity rank_affinity(const LayoutConfig& layout) {
  return rank_affinity(layout, cores_of_thread(), usable_cores().count, openmp_places());
}

RankAffinity rank_affinity(const LayoutConfig& layout, std::span<const int> usable, int limit,
                           const OpenMpPlaces& openmp) {
  if (layout.no_cpu_affinity) return {{}, "none (--no-cpu-affinity)"};
  const auto ranks = static_cast<int>(ranks_on_machine(layout));
  const auto threads = static_cast<int>(layout.threads_per_rank);
  if (!openmp.variable.empty()) return affinity_of_places(ranks, threads, openmp);
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
