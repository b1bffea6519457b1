#pragma once
// A world of local ranks, each on a thread of its own.

#include <functional>

#include "phalanx/comm/local/local_world.h"

namespace phalanx {

// Runs `body` for every rank of a world and returns when all have returned; a world of one runs on
// the calling thread. If a body throws, the waits of the others end, and this rethrows the first
// failure. SystemError, before any body runs, if the system refuses a thread of a rank or of those
// that options.threads_per_rank asks for. A body that frees tensors before it throws must abort()
// first: a peer may be reading them.
void run_local_ranks(int size, const LocalOptions& options,
                     const std::function<void(Communicator& world)>& body);

}  // namespace phalanx
