#pragma once
// The groups of ranks that a rank talks to in a run.

#include <memory>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/mesh/rank_grid.h"

namespace phalanx {

struct RankCommunicators {
  GridCoordinates at;
  Communicator* world;
  // Null where the group has one rank.
  std::unique_ptr<Communicator> tensor, data, pipeline;
  std::unique_ptr<Communicator> embedding;  // first and last rank of a pipeline; null between them

  // Those that hold one copy of the model, tensor-parallel neighbours next to each other; null for
  // one.
  Communicator* model() const { return model_ ? model_.get() : tensor.get(); }

  // Splits the world by the grid; every rank at the same time. With `timers` all waits count there.
  RankCommunicators(const RankGrid& grid, Communicator& world, StepTimers* timers = nullptr);

 private:
  std::unique_ptr<Communicator> timed_world_;
  std::unique_ptr<Communicator> model_;  // of a pipeline
};

}  // namespace phalanx
