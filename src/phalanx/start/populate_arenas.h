#pragma once
// Takes the memory of a run's arenas before the run computes. Where other programs have taken
// memory that the plan counted on, an error says so before the kernel kills a process.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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

// Called by all ranks of `world` at the same time, each with its arenas. The threads that will
// compute on the memory take it block by block. Before each block, while no rank takes memory, the
// need of all ranks of a host is compared with what is available there: SystemError with both
// numbers.
void populate_arenas(Communicator& world, std::span<const RankPlace> places, Backend& backend,
                     const std::vector<const Arena*>& arenas, const PopulateOptions& options);

}  // namespace phalanx
