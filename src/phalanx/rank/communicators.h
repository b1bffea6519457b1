#pragma once
// The groups of ranks that a rank talks to in a run.

#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/mesh/rank_grid.h"

namespace phalanx {

// The tensor becomes the sum over the group; null: a group of one rank.
void sum_over(Context& context, Communicator* group, const Tensor& tensor);

struct RankCommunicators {
  GridCoordinates at;
  Communicator* world;
  // Null where the group has one rank.
  std::unique_ptr<Communicator> tensor, data, pipeline;

  // Those that hold one copy of the model, tensor-parallel neighbours next to each other; null for
  // one.
  Communicator* model() const { return model_ ? model_.get() : tensor.get(); }

  // Splits the world by the grid; every rank at the same time. With `timers` all waits count there.
  RankCommunicators(const RankGrid& grid, Communicator& world, StepTimers* timers = nullptr);

  // In each pipeline those of these ranks, in this order: one rank's end of its group, null where
  // it is none of them or alone. By every rank of the world, in one order.
  std::unique_ptr<Communicator> among(const std::vector<int>& pipeline_ranks,
                                      const std::string& name) const;
  // Of data parallelism: `instances` groups of neighbours, which share one copy of their states
  // each, and those that have the same part of every copy. Null where the rank is alone. By every
  // rank of the world, in one order.
  struct Sharding {
    std::unique_ptr<Communicator> shards, replicas;
  };
  Sharding sharding(int instances) const;
  // So many neighbours in each tensor-parallel group: one rank's end of its group, null where it is
  // alone. By every rank of the world, in one order.
  std::unique_ptr<Communicator> tensor_neighbours(int count, const std::string& name) const;

 private:
  RankGroups tensors_, pipelines_, datas_;
  std::unique_ptr<Communicator> timed_world_;
  std::unique_ptr<Communicator> model_;  // of a pipeline
};

}  // namespace phalanx
