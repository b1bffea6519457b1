#pragma once
// Few numbers and texts of all ranks, for all ranks.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rank/rank.h"

namespace phalanx {

// By rank; ranks may have different counts. All call it at the same time.
std::vector<std::vector<std::int64_t>> gather_numbers(Rank& rank,
                                                      const std::vector<std::int64_t>& mine);
std::vector<std::string> gather_texts(Rank& rank, std::string_view mine);

}  // namespace phalanx
