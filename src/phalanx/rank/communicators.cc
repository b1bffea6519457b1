#include "phalanx/rank/communicators.h"

#include "phalanx/comm/timed_communicator.h"

namespace phalanx {
namespace {

// Of groups of `size` ranks, each cut into `parts` groups of neighbours.
struct TwoLevels {
  RankGroups neighbours;
  RankGroups across;  // the ranks that have the same number in each of these
};

TwoLevels two_levels(const RankGroups& groups, int size, int parts) {
  PHALANX_CHECK(parts > 0 && size % parts == 0, "{} ranks in {} groups", size, parts);
  const auto count = static_cast<std::size_t>(size / parts);
  TwoLevels levels;
  for (const std::vector<int>& members : groups) {
    const std::size_t first = levels.across.size();
    levels.across.resize(first + count);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i % count == 0) levels.neighbours.emplace_back();
      levels.neighbours.back().push_back(members[i]);
      levels.across[first + i % count].push_back(members[i]);
    }
  }
  return levels;
}

}  // namespace

void sum_over(Context& context, Communicator* group, const Tensor& tensor) {
  if (group != nullptr) group->all_reduce(context, tensor, Reduction::kSum).wait(context.queue);
}

RankCommunicators::RankCommunicators(const ParallelGrids& grids, Communicator& everyone,
                                     StepTimers* timers, Communicator* hosts)
    : coordinates(grids.dense.coordinates(everyone.rank())),
      expert_coordinates(grids.expert_coordinates(everyone.rank())),
      world(&everyone),
      control(hosts != nullptr ? hosts : &everyone),
      grids_(grids) {
  const RankGrid& grid = grids.dense;
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
  if (sizes.context > 1) {
    context = split(grid.groups("cp"), "cp");
    data = split(grid.groups("dp-cp"), "dp-cp");
  } else if (sizes.data > 1) {
    data = split(grid.groups("dp"), "dp");
  }
  if (sizes.pipeline > 1) {
    pipeline = split(grid.groups("pp"), "pp");
    model_ = split(grid.groups("tp-pp"), "mp");
  }
  if (!grids.expert) return;
  const GridSizes& of_experts = grids.expert->sizes();
  if (of_experts.expert > 1) experts_.experts = split(grids.expert->groups("ep"), "ep");
  if (of_experts.tensor > 1) experts_.tensor = split(grids.expert->groups("tp"), "etp");
  if (of_experts.expert * of_experts.tensor > 1) {
    experts_.all = split(grids.expert->groups("tp-ep"), "tp-ep");
  }
  if (of_experts.data > 1) experts_.data = split(grids.expert->groups("dp"), "edp");
  if (of_experts.pipeline > 1) experts_.model = split(grids.expert->groups("tp-ep-pp"), "tp-ep-pp");
}

PerDomain<Communicator*> RankCommunicators::data_of_domains() const {
  return {.dense = data.get(), .expert = grids_.expert ? experts_.data.get() : data.get()};
}

PerDomain<Communicator*> RankCommunicators::stage_of_domains() const {
  return {.dense = tensor.get(), .expert = grids_.expert ? experts_.all.get() : tensor.get()};
}

PerDomain<Communicator*> RankCommunicators::model_of_domains() const {
  if (!pipeline) return stage_of_domains();
  return {.dense = model(), .expert = grids_.expert ? experts_.model.get() : model()};
}

ExpertParallel RankCommunicators::expert_parallel() const {
  const GridSizes sizes = grids_.expert_sizes();
  return {.rank = expert_coordinates.expert,
          .size = sizes.expert,
          .tensor_rank = expert_coordinates.tensor,
          .tensor_size = sizes.tensor};
}

ExpertRegion RankCommunicators::expert_region() const {
  if (!grids_.expert) return {expert_parallel(), nullptr, tensor.get(), tensor.get()};
  return {expert_parallel(), experts_.experts.get(), experts_.tensor.get(), experts_.all.get()};
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
  for (const std::vector<int>& members : grids_.dense.groups("pp")) {
    std::vector<int>& group = groups.emplace_back();
    for (const int rank : pipeline_ranks) group.push_back(members[static_cast<std::size_t>(rank)]);
  }
  return split(groups, name);
}

PerDomain<RankCommunicators::Sharding> RankCommunicators::sharding(int instances) const {
  const auto cut = [&](const RankGroups& all, const std::string& name) {
    const auto [shards, replicas] =
        two_levels(all, static_cast<int>(all.front().size()), instances);
    Sharding groups;
    if (shards.front().size() > 1) groups.shards = split(shards, name + "-shard");
    if (replicas.front().size() > 1) groups.replicas = split(replicas, name + "-replica");
    return groups;
  };
  PerDomain<Sharding> groups;
  groups.dense = cut(grids_.dense.groups("dp-cp"), "dp");
  if (grids_.expert) groups.expert = cut(grids_.expert->groups("dp"), "edp");
  return groups;
}

RankCommunicators::ContextLevels RankCommunicators::context_levels(int inner) const {
  const int size = grids_.dense.sizes().context;
  const auto [heads, rings] = two_levels(grids_.dense.groups("cp"), size, size / inner);
  ContextLevels levels;
  if (heads.front().size() > 1) levels.heads = split(heads, "cp-heads");
  if (rings.front().size() > 1) levels.ring = split(rings, "cp-ring");
  return levels;
}

std::unique_ptr<Communicator> RankCommunicators::tensor_neighbours(int count,
                                                                   const std::string& name) const {
  if (count < 2) return nullptr;
  RankGroups groups;
  for (const std::vector<int>& members : grids_.dense.groups("tp")) {
    PHALANX_CHECK(std::ssize(members) % count == 0, "{} ranks in groups of {}", members.size(),
                  count);
    for (auto first = members.begin(); first != members.end(); first += count) {
      groups.emplace_back(first, first + count);
    }
  }
  return split(groups, name);
}

}  // namespace phalanx
