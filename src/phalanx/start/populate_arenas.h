#pragma once
// The memory of a run's arenas is taken before the run computes: where other programs have taken
// what the plan counted on, an error says so before the kernel ends a process.

#include <cstdint>
#include <functional>
#include <span>

#include "phalanx/base/machine.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

struct PopulateOptions {
  int threads = 1;  // of the rank's team
  std::int64_t block_bytes = std::int64_t{256} << 20;
  std::function<AvailableMemory()> available = [] { return available_memory(); };
};

// By all ranks of `world` at the same time, each with its arenas: block by block, by the threads
// that will compute on it. Before each block, while no rank takes memory, what all ranks of a host
// have still to take is compared with what is available there: SystemError with both.
void populate_arenas(Communicator& world, Context& context, std::span<const RankPlace> places,
                     std::span<const Arena> arenas, const PopulateOptions& options);

}  // namespace phalanx
