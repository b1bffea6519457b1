#pragma once
// What people call a rank.

#include <string>
#include <vector>

#include "phalanx/rank/communicators.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// "rank 5 (tp 1, pp 0, dp 2) on host node7". Of one rank alone "rank 0";
// `host` is empty where there is one.
std::string rank_text(int rank, int world_size, const GridCoordinates& place,
                      const std::string& host);
// This rank, where `places` are all ranks'.
std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places);

}  // namespace phalanx
