#pragma once
// Memory lies on the NUMA node of the thread that first writes it.

#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {

// Writes zeros to every page of an arena that nobody has written to, each by the thread of a team
// of `threads` that computes on it: threads have shares of flat buffers, in order. For what one
// thread is about to fill; kernels that write first need none of this.
void touch_first(int threads, const Arena& arena);

}  // namespace phalanx::cpu
