#pragma once
// Gathers of a few numbers or a text of each rank, between steps. They pass through the workspace
// of a context of the host (Rank::host_context()), in pieces, so that every plan has their memory.
// Bulk goes through saving/gathered_tensors.h.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"

namespace phalanx {

// The bytes of the workspace that a gather over so many ranks takes, at most.
std::int64_t gather_bytes(int ranks);

// Of all ranks of the group, by rank; every rank calls at the same time.
std::vector<std::int64_t> gather_numbers(Communicator& group, Context& context, std::int64_t mine);
// Ranks may have texts of different lengths, and different counts of numbers.
std::vector<std::string> gather_texts(Communicator& group, Context& context,
                                      const std::string& mine);
std::vector<std::vector<double>> gather_numbers(Communicator& group, Context& context,
                                                std::span<const double> mine);

}  // namespace phalanx
