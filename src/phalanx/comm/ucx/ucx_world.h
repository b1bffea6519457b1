#pragma once
// The transport of ranks that are processes. UCX carries point-to-point messages, by shared memory
// between ranks of one host and over the network between hosts. The collectives on top are our own,
// since the order of additions decides the bits.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/comm/sum_tree.h"
#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx {

struct UcxOptions {
  int threads_per_rank = 1;   // for sums
  int sum_block = kSumBlock;  // of the SumTree of every group
  // A wait that lasts longer ends with a CommError that names the ranks that have not come, and is
  // this rank's failure. Time in which a rank is busy does not count.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // The network interface between hosts ("eth0"); empty: whatever UCX finds.
  std::string network_device;
  // The sizes of the groups in which this rank sums more than a few numbers; none where that is not
  // known. They bound how many ranks it connects to.
  std::vector<int> summing{};
};

// Every rank calls it with the same places (by rank). Ranks leave their addresses in the mailbox
// and connect when they exchange their first message, so a rank of a large world has few
// connections. `watch` and `mailbox` must outlive the world. SystemError if the transport cannot be
// opened.
std::unique_ptr<Communicator> make_ucx_world(int rank, const std::vector<RankPlace>& places,
                                             const UcxOptions& options, RankWatch& watch,
                                             Mailbox& mailbox);

// How many ranks this rank of such a world has exchanged messages with.
int ucx_connections(const Communicator& member);

// What a rank has sent to ranks of other hosts so far, over all groups.
struct UcxTraffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};
// `member`: an end of such a world, or of one of its groups.
UcxTraffic ucx_network_traffic(const Communicator& member);

// A bound on the bytes that the transport uses besides the planned arenas, on a rank of a world
// with these places: for the plan's row of libraries. `summing`: the sizes of the groups in which
// the rank sums more than a few numbers. Each has memory of its own.
struct UcxMemory {
  std::int64_t bytes = 0;
  std::int64_t shared = 0;  // the part that is other ranks' memory, which those count too
};
UcxMemory ucx_memory(int rank, const std::vector<RankPlace>& places, int sum_block,
                     std::span<const int> summing);

}  // namespace phalanx
