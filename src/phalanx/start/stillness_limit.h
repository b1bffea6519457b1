#pragma once
// How long a rank may be without anything that moves before it is taken for one that hangs, by the
// plan of what it does.

#include <chrono>

#include "phalanx/rank/rank.h"

namespace phalanx {

// A minute, or 20 times what the slowest pass of a unit takes at the peak, for machines are shared
// and memory is slower than it should be: `flops_per_second` of the rank, its operands at 1 GB/s.
std::chrono::milliseconds stillness_limit(const LargestUnit& unit, double flops_per_second);

}  // namespace phalanx
