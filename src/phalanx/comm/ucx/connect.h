#pragma once
// How the ranks of a world connect: each opens the wires that its peers need and leaves their
// addresses in the mailbox, where a peer finds them when it sends it the first message.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::ucx {

// The most ranks that a rank connects to which sums in groups of these sizes: their members,
// neighbours in rings, and ranks that are a power of two away.
std::int64_t most_peers(std::span<const int> summing);

// Opens shared memory to ranks of this host and the network to ranks of others, where there are
// such ranks. Waits for the ranks of this host only. SystemError; the mailbox's errors.
Wires open_wires(int rank, const std::vector<RankPlace>& places, const UcxOptions& options,
                 Mailbox& mailbox);

}  // namespace phalanx::ucx
