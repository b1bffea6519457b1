#pragma once
// The grids of a training job and every family of groups in them. Dense layers and experts share
// the ranks but not their arrangement (Megatron-core's two generators): the tensor x context x data
// ranks of a pipeline stage are expert tensor x expert x expert data ranks to the experts.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
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
  // For an encoder and a decoder: either the stage at which one pipeline is cut (0: not given), or
  // the sizes of an encoder with its own ranks before the decoder's; the other sizes are then the
  // decoder's.
  std::int64_t split_rank = 0;
  std::int64_t encoder_pipeline = 0;  // 0: none of its own
  std::int64_t encoder_tensor = 0;    // 0: not given, the tensor-parallel size
};

struct ParallelGrids {
  // Where the encoder has a grid of its own, the decoder's: its ranks follow the encoder's.
  RankGrid dense;
  // Where the expert or the expert tensor-parallel size asks for one; its axes tp, ep and dp are
  // expert tensor, expert and expert data parallelism.
  std::optional<RankGrid> expert = std::nullopt;
  // With as many context and data ranks as the decoder, and at most as many tensor ranks.
  std::optional<RankGrid> encoder = std::nullopt;
  int split = 0;  // the first stage of a decoder, counted over both grids; 0: one stack

  int encoder_ranks() const { return encoder ? encoder->world_size() : 0; }
  int world_size() const { return encoder_ranks() + dense.world_size(); }
  // The place of a rank in its own grid, with the stage counted over both.
  GridCoordinates coordinates(int rank) const;
  // The place of a rank in the grid of experts, and its sizes. Without such a grid every expert is
  // on all ranks, and cut over the tensor-parallel ranks: the expert axis has one rank, and the
  // data axis those of context and data.
  GridCoordinates expert_coordinates(int rank) const;
  GridSizes expert_sizes() const;
};

// Which part of a model a rank has. Ranks with the same place have the same parameters.
struct PlaceInModel {
  int stage = 0;
  int tensor = 0;
  int expert = 0;
  int expert_tensor = 0;

  friend bool operator==(const PlaceInModel&, const PlaceInModel&) = default;
  friend bool operator<(const PlaceInModel& a, const PlaceInModel& b) {
    return std::tie(a.stage, a.tensor, a.expert, a.expert_tensor) <
           std::tie(b.stage, b.tensor, b.expert, b.expert_tensor);
  }
};
PlaceInModel place_in_model(const ParallelGrids& grids, int rank);

// Which rank sends the encoder's output to which where both have their own grids. Megatron-LM lets
// encoder ranks that feed several decoder ranks add up the gradients that these return; they are
// equal, so the sum is too large by their number, and replicas of different data are mixed. Here
// tensor rank j of a decoder replica is fed by tensor rank floor(j * etp / tp) of the same replica,
// and one of those that share an encoder rank returns the gradient.
struct EncoderOutput {
  int from = 0;
  std::vector<int> to;
  int gradient_from = 0;
};
// Of every rank of the encoder's last stage; empty without an encoder's grid.
std::vector<EncoderOutput> encoder_outputs(const ParallelGrids& grids);

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
