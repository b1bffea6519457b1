#pragma once
// Texts that ranks tell each other while a run goes on: what is found about one of them, for an
// error that is the same on all.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// The texts of all ranks of the group, by rank; every rank at the same time. Takes memory of its
// own beside the planned arenas, as long as the call.
std::vector<std::string> gather_texts(Communicator& group, Context& context,
                                      const std::string& mine);

// Likewise a number each.
std::vector<std::int64_t> gather_numbers(Communicator& group, Context& context, std::int64_t mine);

// What people call a rank: "rank 5 (tp 1, pp 0, dp 2) on host node7". Of one rank alone "rank 0";
// `host` is empty where there is one.
std::string rank_text(int rank, int world_size, const GridCoordinates& at, const std::string& host);
// This rank, where `places` are all ranks'.
std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places);

}  // namespace phalanx
