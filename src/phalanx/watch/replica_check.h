#pragma once
// Whether all data-parallel ranks, the ranks of a pipeline that share a parameter, and the
// tensor-parallel ranks that have the same rows of one, still hold the same weights.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rank/rank.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// By all ranks at the same time, between steps. ErrorOf<kTemporary>, the same on all ranks, where a
// parameter has other bits on some of its holders: a machine has computed or kept something else.
// The message ends with what `advice` says, which only the first rank is asked.
void check_replicas(Rank& rank, const std::vector<RankPlace>& places, std::int64_t iteration,
                    const std::function<std::string()>& advice);

// From which checkpoint of the run to start again where ranks differ that were the same after
// iteration `same`: the newest one in `save` that is not of a later iteration. `save` may be empty.
std::string restart_advice(const std::filesystem::path& save, std::string_view run_id,
                           std::int64_t same);

}  // namespace phalanx
