#include "phalanx/rank/communicators.h"

#include "phalanx/comm/timed_communicator.h"

namespace phalanx {

void sum_over(Context& context, Communicator* group, const Tensor& tensor) {
  if (group != nullptr) group->all_reduce(context, tensor, Reduction::kSum).wait(context.queue);
}

RankCommunicators::RankCommunicators(const RankGrid& grid, Communicator& everyone,
                                     StepTimers* timers, Communicator* hosts)
    : coordinates(grid.coordinates(everyone.rank())),
      world(&everyone),
      control(hosts != nullptr ? hosts : &everyone),
      grid_(grid) {
  if (timers != nullptr) {
    timed_world_ = timed(everyone, *timers);
    world = timed_world_.get();
    if (hosts != nullptr) timed_control_ = timed(*hosts, *timers);
    control = hosts != nullptr ? timed_control_.get() : world;
  }
  PHALANX_CHECK(control->size() == world->size() && control->rank() == world->rank(),
                "rank {} of {} is rank {} of {} hosts", world->rank(), world->size(),
                control->rank(), control->size());
  PHALANX_CHECK(world->size() == grid.world_size(), "a world of {} ranks on a grid of {}",
                world->size(), grid.world_size());
  const GridSizes& sizes = grid.sizes();
  if (sizes.tensor > 1) tensor = split(grid.groups("tp"), "tp");
  if (sizes.data > 1) data = split(grid.groups("dp"), "dp");
  if (sizes.pipeline > 1) {
    pipeline = split(grid.groups("pp"), "pp");
    model_ = split(grid.groups("tp-pp"), "mp");
  }
}

std::unique_ptr<Communicator> RankCommunicators::split(const RankGroups& groups,
                                                       const std::string& name) const {
  std::unique_ptr<Communicator> group = world->split(groups, name);
  if (control == world) return group;
  std::unique_ptr<Communicator> hosts = control->split(groups, name);
  if (group) twins_->insert_or_assign(group.get(), std::move(hosts));
  return group;
}

Communicator* RankCommunicators::on_host(Communicator* group) const {
  if (group == nullptr || control == world) return group;
  if (group == world) return control;
  const auto twin = twins_->find(group);
  PHALANX_CHECK(twin != twins_->end(), "{}: a group that was not made here", group->name());
  return twin->second.get();
}

void RankCommunicators::abort(std::string_view reason) const noexcept {
  world->abort(reason);
  if (control != world) control->abort(reason);
}

std::unique_ptr<Communicator> RankCommunicators::pipeline_group(
    const std::vector<int>& pipeline_ranks, const std::string& name) const {
  if (pipeline_ranks.size() < 2) return nullptr;
  RankGroups groups;
  for (const std::vector<int>& members : grid_.groups("pp")) {
    std::vector<int>& group = groups.emplace_back();
    for (const int rank : pipeline_ranks) group.push_back(members[static_cast<std::size_t>(rank)]);
  }
  return split(groups, name);
}

RankCommunicators::Sharding RankCommunicators::sharding(int instances) const {
  RankGroups shards;
  RankGroups replicas;
  for (const std::vector<int>& members : grid_.groups("dp")) {
    PHALANX_CHECK(std::ssize(members) % instances == 0, "{} ranks in {} groups", members.size(),
                  instances);
    const std::size_t size = members.size() / static_cast<std::size_t>(instances);
    const std::size_t first = replicas.size();
    replicas.resize(first + size);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i % size == 0) shards.emplace_back();
      shards.back().push_back(members[i]);
      replicas[first + i % size].push_back(members[i]);
    }
  }
  Sharding groups;
  if (shards.front().size() > 1) groups.shards = split(shards, "dp-shard");
  if (replicas.front().size() > 1) groups.replicas = split(replicas, "dp-replica");
  return groups;
}

std::unique_ptr<Communicator> RankCommunicators::tensor_neighbours(int count,
                                                                   const std::string& name) const {
  if (count < 2) return nullptr;
  RankGroups groups;
  for (const std::vector<int>& members : grid_.groups("tp")) {
    PHALANX_CHECK(std::ssize(members) % count == 0, "{} ranks in groups of {}", members.size(),
                  count);
    for (auto first = members.begin(); first != members.end(); first += count) {
      groups.emplace_back(first, first + count);
    }
  }
  return split(groups, name);
}

}  // namespace phalanx
