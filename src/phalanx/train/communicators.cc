#include "phalanx/train/communicators.h"

#include "phalanx/comm/timed_communicator.h"

namespace phalanx {

RankCommunicators::RankCommunicators(const RankGrid& grid, Communicator& everyone,
                                     StepTimers* timers)
    : at(grid.coordinates(everyone.rank())), world(&everyone), pipelines_(grid.groups("pp")) {
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
    pipeline = world->split(pipelines_, "pp");
    model_ = world->split(grid.groups("tp-pp"), "mp");
  }
}

std::unique_ptr<Communicator> RankCommunicators::among(const std::vector<int>& pipeline_ranks,
                                                       const std::string& name) const {
  if (pipeline_ranks.size() < 2) return nullptr;
  RankGroups groups;
  for (const std::vector<int>& members : pipelines_) {
    std::vector<int>& group = groups.emplace_back();
    for (const int rank : pipeline_ranks) group.push_back(members[static_cast<std::size_t>(rank)]);
  }
  return world->split(groups, name);
}

}  // namespace phalanx
