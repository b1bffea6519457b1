#include "phalanx/rank/rank_texts.h"

#include <fmt/core.h>

namespace phalanx {

std::string rank_text(int rank, int world_size, const GridCoordinates& at,
                      const std::string& host) {
  std::string text = fmt::format("rank {}", rank);
  if (world_size > 1) {
    text += fmt::format(" (tp {}, pp {}, dp {})", at.tensor, at.pipeline, at.data);
  }
  if (!host.empty()) text += fmt::format(" on host {}", host);
  return text;
}

std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places) {
  const int rank = ranks.world->rank();
  const bool has_hosts = places.back().host > 0;
  return rank_text(rank, ranks.world->size(), ranks.coordinates,
                   has_hosts ? places[static_cast<std::size_t>(rank)].host_name : std::string());
}

}  // namespace phalanx
