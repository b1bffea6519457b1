#pragma once
// A world of local ranks, each on a thread of its own.

#include <functional>

#include "phalanx/comm/local/local_world.h"

namespace phalanx {

// Runs `body` for every rank of a world and returns when all have returned; a world of one runs on
// the calling thread. Where a body throws, the others' waits end, and the first failure comes out
// here. SystemError, and no body runs on, where the system refuses a thread: those of the ranks, or
// the others that options.threads_per_rank asks for. A body that frees tensors on its way out must
// abort() before: a peer may be reading them.
void run_local_ranks(int size, const LocalOptions& options,
                     const std::function<void(Communicator& world)>& body);

}  // namespace phalanx
