#pragma once
// The groups of ranks that a rank talks to in a run.

#include <memory>

#include "phalanx/comm/communicator.h"
#include "phalanx/mesh/rank_grid.h"

namespace phalanx {

struct RankCommunicators {
  GridCoordinates at;
  Communicator* world;                         // the caller's
  std::unique_ptr<Communicator> tensor, data;  // null where the group has one rank

  // Splits the world by the grid; every rank at the same time.
  RankCommunicators(const RankGrid& grid, Communicator& world);
};

}  // namespace phalanx
