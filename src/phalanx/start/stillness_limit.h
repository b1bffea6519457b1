#pragma once
// How long a rank may make no progress before it counts as hanging, from the plan of its work.

#include <chrono>

#include "phalanx/rehearsal/rank_rehearsal.h"

namespace phalanx {

// A minute, or 20 times the slowest pass of a unit, computed at `flops_per_second` of the rank with
// operands at 1 GB/s. The factor is large because machines are shared and memory is slow.
std::chrono::milliseconds stillness_limit(const LargestUnit& unit, double flops_per_second);

}  // namespace phalanx
