#include "phalanx/rank/rank_texts.h"

#include <fmt/core.h>

namespace phalanx {

std::string rank_text(int rank, int world_size, const GridPlace& place, const std::string& host) {
  std::string text = fmt::format("rank {}", rank);
  if (world_size > 1) {
    const GridCoordinates& at = place.dense;
    text += fmt::format(" (tp {}, pp {}, dp {}", at.tensor, at.pipeline, at.data);
    if (place.expert) {
      text += fmt::format(", ep {}, etp {}, edp {}", place.expert->expert, place.expert->tensor,
                          place.expert->data);
    }
    text += ")";
  }
  if (!host.empty()) text += fmt::format(" on host {}", host);
  return text;
}

std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places) {
  const int rank = ranks.world->rank();
  const bool has_hosts = places.back().host > 0;
  GridPlace place{.dense = ranks.coordinates, .expert = {}};
  const ExpertParallel experts = ranks.expert_parallel();
  const int tensor = ranks.tensor ? ranks.tensor->size() : 1;
  if (experts.size > 1 || experts.tensor_size != tensor) place.expert = ranks.expert_coordinates;
  return rank_text(rank, ranks.world->size(), place,
                   has_hosts ? places[static_cast<std::size_t>(rank)].host_name : std::string());
}

}  // namespace phalanx
