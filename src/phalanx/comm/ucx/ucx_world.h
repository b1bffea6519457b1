#pragma once
// The transport of ranks that are processes: UCX carries point-to-point messages, by shared memory
// between ranks of one host and over the network between hosts; the collectives on top are our own,
// for the order of additions is part of the bits.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx {

struct UcxOptions {
  int threads_per_rank = 1;  // that sum
  // A wait that lasts longer ends with a CommError that names the ranks that have not come, and is
  // this rank's failure. Time in which a rank is busy does not count.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // The network interface between hosts ("eth0"); empty: whatever UCX finds.
  std::string network_device;
};

// The texts of all ranks, by rank; every rank calls it at the same time with its own.
using GatherTexts = std::function<std::vector<std::string>(std::string mine)>;

// Every rank at the same time, with the same places (by rank). `watch` outlives the world.
// SystemError where the transport cannot be opened.
std::unique_ptr<Communicator> make_ucx_world(int rank, const std::vector<RankPlace>& places,
                                             const UcxOptions& options, RankWatch& watch,
                                             const GatherTexts& gather);

// Bytes that the transport takes beside the planned arenas, at most, on a rank of a world with
// these places: for the plan's row of libraries.
std::int64_t ucx_library_bytes(int rank, const std::vector<RankPlace>& places);

}  // namespace phalanx
