#pragma once
// The groups of ranks that a rank talks to in a run.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/mesh/parallel_grids.h"
#include "phalanx/mesh/param_spec.h"
#include "phalanx/regions/context_region.h"
#include "phalanx/regions/expert_region.h"

namespace phalanx {

// The tensor becomes the sum over the group; null: a group of one rank.
void sum_over(Context& context, Communicator* group, const Tensor& tensor);

struct RankCommunicators {
  GridCoordinates coordinates;         // of this rank
  GridCoordinates expert_coordinates;  // its place in the grid of experts
  // Carry tensors of the rank's backend.
  Communicator* world;
  // Null where the group has one rank. `data` is the ranks that have other rows for the same
  // parameters: other samples, and with context parallelism other rows of the same samples (those
  // of a sample next to each other). Gradients and losses are summed over it, and states are cut
  // over it.
  std::unique_ptr<Communicator> tensor, context, data, pipeline;
  // This rank's number in `data`; 0 where there is none.
  int data_rank() const { return data ? data->rank() : 0; }

  // The ranks that hold one copy of the model, tensor-parallel neighbours next to each other; null
  // where that is one rank.
  Communicator* model() const { return model_ ? model_.get() : tensor.get(); }

  // The same by reduction domain; the groups of kExpert are those of the grid of experts. The ranks
  // that have the same part of the domain's parameters,
  PerDomain<Communicator*> data_of_domains() const;
  // and those that have the parts of one copy, of all stages or of this rank's.
  PerDomain<Communicator*> model_of_domains() const;
  PerDomain<Communicator*> stage_of_domains() const;
  // This rank's experts as layers see them, and the groups along which their tokens travel.
  ExpertParallel expert_parallel() const;
  ExpertRegion expert_region() const;

  // All ranks, for what their hosts tell each other: numbers and texts in host memory. Barriers,
  // and who is busy, go here, too. It is the world where that carries host memory.
  Communicator* control;
  // The ranks of one of these groups, or of one that was made here, for numbers of their hosts;
  // null for null.
  Communicator* on_host(Communicator* group) const;

  // Splits the world by the grids; every rank at the same time. `timers`, where given, count all
  // waits. `control`: the same ranks on a transport for host memory, where the world carries
  // memory of devices.
  RankCommunicators(const ParallelGrids& grids, Communicator& world, StepTimers* timers = nullptr,
                    Communicator* control = nullptr);

  // A group of these ranks of each pipeline, in this order; null where this rank is not in it, or
  // alone in it. Every rank of the world makes such groups in the same order.
  std::unique_ptr<Communicator> pipeline_group(const std::vector<int>& pipeline_ranks,
                                               const std::string& name) const;
  // Cuts the data-parallel group of each domain into `instances` groups of neighbours: each shares
  // one copy of the states. The replicas are the ranks that have the same part of every copy. Null
  // where the rank is alone, and for experts without a grid of their own: theirs are the dense
  // ones. Every rank of the world makes them in the same order.
  struct Sharding {
    std::unique_ptr<Communicator> shards, replicas;
  };
  PerDomain<Sharding> sharding(int instances) const;
  // The two levels of a context (regions/context_region.h): groups of `inner` neighbours, and the
  // ranks that have the same number in them. Null where the rank is alone. Every rank of the world
  // makes them in the same order.
  struct ContextLevels {
    std::unique_ptr<Communicator> heads, ring;
  };
  ContextLevels context_levels(int inner) const;
  // Cuts the tensor-parallel group into groups of `count` neighbours; null where the rank is alone.
  // Every rank of the world makes them in the same order.
  std::unique_ptr<Communicator> tensor_neighbours(int count, const std::string& name) const;

  // This rank fails: see Communicator::abort().
  void abort(std::string_view reason) const noexcept;

 private:
  // Of the world, and of the control's ranks where these are others.
  std::unique_ptr<Communicator> split(const RankGroups& groups, const std::string& name) const;

  ParallelGrids grids_;  // groups are computed when they are made: a large world has thousands
  std::unique_ptr<Communicator> timed_world_, timed_control_;
  // By group, where the control is not the world. Groups are made by const functions.
  using Twins = std::map<const Communicator*, std::unique_ptr<Communicator>>;
  std::unique_ptr<Twins> twins_ = std::make_unique<Twins>();
  std::unique_ptr<Communicator> model_;  // where there is a pipeline
  // Of the grid of experts, where there is one; null where the group has one rank. `all` is both
  // axes of a stage, `model` of all stages.
  struct Experts {
    std::unique_ptr<Communicator> experts, tensor, all, data, model;
  };
  Experts experts_;
};

}  // namespace phalanx
