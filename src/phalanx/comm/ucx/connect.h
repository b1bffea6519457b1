#pragma once
// How the ranks of a world find each other: each opens the wires that its peers need, and all tell
// all where they listen.

#include <vector>

#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::ucx {

// Shared memory to ranks of this host, the network to others; what nobody needs is not opened.
// SystemError.
Wires open_wires(int rank, const std::vector<RankPlace>& places, const UcxOptions& options,
                 const GatherTexts& gather);

}  // namespace phalanx::ucx
