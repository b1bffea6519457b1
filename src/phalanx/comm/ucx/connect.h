#pragma once
// How the ranks of a world connect: each opens the wires that its peers need, and all exchange the
// addresses of their wires.

#include <vector>

#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::ucx {

// Opens shared memory to ranks of this host and the network to ranks of others, where there are
// such ranks. SystemError.
Wires open_wires(int rank, const std::vector<RankPlace>& places, const UcxOptions& options,
                 const GatherTexts& gather);

}  // namespace phalanx::ucx
