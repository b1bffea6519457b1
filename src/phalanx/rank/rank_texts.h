#pragma once
// What people call a rank.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/rank/communicators.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// A rank's place in both grids (mesh/parallel_grids.h).
struct GridPlace {
  GridCoordinates dense;
  std::optional<GridCoordinates> expert;  // where experts have a grid of their own
};

// "rank 5 (tp 1, pp 0, dp 2) on host node7", and with a grid of experts "rank 5 (tp 1, pp 0, dp 2,
// ep 1, etp 0, edp 1)". Of one rank alone "rank 0"; `host` is empty where there is one.
std::string rank_text(int rank, int world_size, const GridPlace& place, const std::string& host);
// This rank, where `places` are all ranks'.
std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places);

}  // namespace phalanx
