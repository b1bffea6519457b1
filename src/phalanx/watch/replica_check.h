#pragma once
// Checks that ranks with copies of the same weights still have the same bits: data-parallel ranks,
// pipeline ranks that share a parameter, and tensor-parallel ranks with the same rows.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rank/rank.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// Called by all ranks at the same time, between steps. If copies of a parameter differ, a machine
// has computed or stored something wrong: ErrorOf<kTemporary>, the same on all ranks. The message
// ends with the text of `advice`, which only the first rank calls.
void check_replicas(Rank& rank, const std::vector<RankPlace>& places, std::int64_t iteration,
                    const std::function<std::string()>& advice);

// Advice for ranks that were equal after iteration `same` and now differ: start again from the
// newest checkpoint in `save` up to that iteration. `save` may be empty.
std::string restart_advice(const std::filesystem::path& save, std::string_view run_id,
                           std::int64_t same);

}  // namespace phalanx
