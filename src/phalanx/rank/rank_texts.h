#pragma once
// Exchanges texts and numbers between ranks while a run goes on, so that all ranks can end with the
// same error message.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// The texts of all ranks of the group, by rank; every rank calls at the same time. The call
// allocates memory outside the planned arenas and frees it.
std::vector<std::string> gather_texts(Communicator& group, Context& context,
                                      const std::string& mine);

// The same with one number per rank.
std::vector<std::int64_t> gather_numbers(Communicator& group, Context& context, std::int64_t mine);

// What people call a rank: "rank 5 (tp 1, pp 0, dp 2) on host node7". Of one rank alone "rank 0";
// `host` is empty where there is one.
std::string rank_text(int rank, int world_size, const GridCoordinates& place,
                      const std::string& host);
// The text of this rank; `places` are those of all ranks.
std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places);

}  // namespace phalanx
