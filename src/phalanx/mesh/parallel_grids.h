#pragma once
// The grids of a training job and every family of groups in them. Dense layers and experts share
// the ranks but not their arrangement (Megatron-core's two generators): the tensor x context x data
// ranks of a pipeline stage are expert tensor x expert x expert data ranks to the experts.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/mesh/rank_grid.h"

namespace phalanx {

// As Megatron's flags give them; data parallelism is what they leave of the world.
struct ParallelSizes {
  std::int64_t world = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;  // 0: not given, the tensor-parallel size
};

struct ParallelGrids {
  RankGrid dense;
  // Where the expert or the expert tensor-parallel size asks for one; its axes tp, ep and dp are
  // expert tensor, expert and expert data parallelism.
  std::optional<RankGrid> expert;
};

// ConfigError naming the flags where sizes are below 1, do not divide the world, or the pipelines
// of the two grids would differ.
ParallelGrids parallel_grids(const ParallelSizes& sizes, std::string_view order = kDefaultOrder);

struct GroupFamily {
  std::string_view name;  // Megatron's: "tp", "mp", "embd"
  std::string_view meaning;
  RankGroups groups;
};
std::vector<GroupFamily> group_families(const ParallelGrids& grids);

}  // namespace phalanx
