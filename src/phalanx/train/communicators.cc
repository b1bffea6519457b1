#include "phalanx/train/communicators.h"

namespace phalanx {

RankCommunicators::RankCommunicators(const RankGrid& grid, Communicator& everyone)
    : at(grid.coordinates(everyone.rank())), world(&everyone) {
  PHALANX_CHECK(world->size() == grid.world_size(), "a world of {} ranks on a grid of {}",
                world->size(), grid.world_size());
  if (grid.sizes().tensor > 1) tensor = world->split(grid.groups("tp"), "tp");
  if (grid.sizes().data > 1) data = world->split(grid.groups("dp"), "dp");
}

}  // namespace phalanx
