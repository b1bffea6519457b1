#pragma once
// Whether all data-parallel ranks, the ranks of a pipeline that share a parameter, and the
// tensor-parallel ranks that have the same rows of one, still hold the same weights.

#include <vector>

#include "phalanx/comm/rank_place.h"
#include "phalanx/train/rank.h"

namespace phalanx {

// By all ranks at the same time, between steps. ErrorOf<kTemporary>, the same on all ranks, where a
// parameter has other bits on some of its holders: a machine has computed or kept something else.
void check_replicas(Rank& rank, const std::vector<RankPlace>& places, std::int64_t iteration);

}  // namespace phalanx
