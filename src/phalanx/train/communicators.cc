#include "phalanx/train/communicators.h"

#include "phalanx/comm/timed_communicator.h"

namespace phalanx {

RankCommunicators::RankCommunicators(const RankGrid& grid, Communicator& everyone,
                                     StepTimers* timers)
    : at(grid.coordinates(everyone.rank())), world(&everyone) {
  if (timers != nullptr) {
    timed_world_ = timed(everyone, *timers);
    world = timed_world_.get();
  }
  PHALANX_CHECK(world->size() == grid.world_size(), "a world of {} ranks on a grid of {}",
                world->size(), grid.world_size());
  const GridSizes& sizes = grid.sizes();
  if (sizes.tensor > 1) tensor = world->split(grid.groups("tp"), "tp");
  if (sizes.data > 1) data = world->split(grid.groups("dp"), "dp");
  if (sizes.pipeline > 1) {
    pipeline = world->split(grid.groups("pp"), "pp");
    embedding = world->split(grid.embedding_groups(), "embd");
    model_ = world->split(grid.groups("tp-pp"), "mp");
  }
}

}  // namespace phalanx
