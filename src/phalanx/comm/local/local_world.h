#pragma once
// The local transport: ranks are threads of this process, and a collective is a set of independent
// pieces (a range of the result from a range of every rank's input). Once the last rank has posted
// its part, all waiting ranks do pieces until none is left. So a message needs no thread of its
// own, a wait never depends on what a peer does next, and the bits do not depend on who did which
// piece.

#include <chrono>
#include <memory>
#include <vector>

#include "phalanx/base/threads.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/comm/sum_tree.h"

namespace phalanx {

struct LocalOptions {
  int threads_per_rank = 1;   // that work on a message's pieces
  int sum_block = kSumBlock;  // of the SumTree of every group
  // A wait that lasts longer ends with a CommError that names the ranks that have not come, and is
  // this rank's failure, as by abort(). Time in which one of them was busy() does not count.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  ThreadStarter start_thread = phalanx::start_thread;  // of run_local_ranks
};

// The ends of a world of `size` ranks, by rank. Each is used by one thread at a time.
std::vector<std::unique_ptr<Communicator>> make_local_world(int size,
                                                            const LocalOptions& options = {});

// Bytes that the pieces of all messages so far have read from each rank's tensors, over all groups:
// the real traffic, which tests compare with what was recorded.
std::vector<std::int64_t> local_bytes_read(const Communicator& member);

}  // namespace phalanx
