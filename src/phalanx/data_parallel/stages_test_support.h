#pragma once
// A small model with a tied word table, cut into pipeline stages in several ways, for tests of
// results that must not depend on the cut.

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/data_parallel/test_support.h"

namespace phalanx {

inline constexpr int kModelLayers = 8;

// A part of a tensor-parallel group.
struct TensorPart {
  int rank = 0;
  int size = 1;
};

inline ParamSpec word_table(const TensorPart& part) {
  ParamSpec spec = row_cut_parameter("word", {101, 97}, DType::kF64,
                                     {Initialiser::Kind::kNormal, 0.5}, part.rank, part.size, 104);
  spec.shared_by = "embd";
  return spec;
}

// The stages of each pipeline rank, in increasing order.
struct StageCut {
  std::string name;
  int stages = 1;
  std::vector<std::vector<int>> ranks;

  int size() const { return static_cast<int>(ranks.size()); }
  const std::vector<int>& of(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }
};

inline StageCut whole_model() { return {"whole", 1, {{0}}}; }

inline StageCut contiguous_cut(int ranks) {
  StageCut cut{fmt::format("contiguous {}", ranks), ranks, {}};
  for (int r = 0; r < ranks; ++r) cut.ranks.push_back({r});
  return cut;
}

inline StageCut looped_cut(int ranks) {
  StageCut cut{fmt::format("looped {}", ranks), 2 * ranks, {}};
  for (int r = 0; r < ranks; ++r) cut.ranks.push_back({r, r + ranks});
  return cut;
}

// The first rank has embedding and head.
inline StageCut v_cut(int ranks) {
  StageCut cut{fmt::format("v {}", ranks), 2 * ranks, {}};
  for (int r = 0; r < ranks; ++r) cut.ranks.push_back({r, 2 * ranks - 1 - r});
  return cut;
}

inline std::vector<StageCut> all_cuts() {
  return {contiguous_cut(2), contiguous_cut(4), looped_cut(2), v_cut(2), looped_cut(1)};
}

// The parameters of one rank. Sizes are no multiples of anything, so that sum blocks are cut
// everywhere.
struct StagePart {
  nn::ParamTable table;
  nn::ParamUse embedding, head;  // the two uses of the word table
};

inline StagePart stage_part(const StageCut& cut, int rank, const TensorPart& tensor = {}) {
  constexpr Initialiser kNormal{Initialiser::Kind::kNormal, 0.5};
  constexpr Initialiser kOne{Initialiser::Kind::kConstant, 1.0};
  const std::vector<int>& stages = cut.of(rank);
  StagePart part;
  for (const int stage : stages) {
    part.table.begin_chunk();
    if (stage == 0) {
      const ParamRole role{.order = kEmbeddingRole, .gradient = ParamRole::Gradient::kRows};
      part.embedding = part.table.add_shared(word_table(tensor), role);
      part.table.add(whole_parameter("position", {50, 97}, DType::kF64, kNormal));
    }
    const int layers = kModelLayers / cut.stages;
    for (int layer = stage * layers; layer < (stage + 1) * layers; ++layer) {
      part.table.add(whole_parameter(fmt::format("{}.norm", layer), {97}, DType::kF64, kOne));
      part.table.add(row_cut_parameter(fmt::format("{}.weight", layer), {70, 131}, DType::kF64,
                                       kNormal, tensor.rank, tensor.size));
      part.table.add(whole_parameter(fmt::format("{}.bias", layer), {131}, DType::kF64, kOne));
    }
    if (stage == cut.stages - 1) {
      part.head = part.table.add_shared(word_table(tensor), {.order = kHeadRole});
      part.table.add(whole_parameter("norm", {97}, DType::kF64, kOne));
    }
  }
  return part;
}

// The shared parameters of the whole model over the ranks.
inline std::vector<SharedParameter> shared_in(const StageCut& cut, const TensorPart& tensor = {}) {
  StageCut stages{"stages", cut.stages, {{}}};
  std::vector<int> rank_of_stage(static_cast<std::size_t>(cut.stages));
  for (int stage = 0; stage < cut.stages; ++stage) stages.ranks[0].push_back(stage);
  for (int rank = 0; rank < cut.size(); ++rank) {
    for (const int stage : cut.of(rank)) rank_of_stage[static_cast<std::size_t>(stage)] = rank;
  }
  return shared_parameters(stage_part(stages, 0, tensor).table, rank_of_stage);
}

inline ModelPlaces places_of(const StagePart& part, const StageCut& cut, int rank,
                             const TensorPart& tensor = {}) {
  return model_places(part.table, stage_part(whole_model(), 0, tensor).table,
                      shared_in(cut, tensor), rank);
}

// Whether the part has the word table, but another part counts it.
inline bool is_uncounted(const ModelPlaces& places, ParamId id) {
  return !places.counted[static_cast<std::size_t>(id)];
}

// How many units of a microbatch add to each gradient.
inline std::vector<int> uses_of(const StagePart& part) {
  std::vector<int> uses(part.table.specs().size(), 1);
  if (part.embedding.id >= 0 && part.embedding.id == part.head.id) {
    uses[static_cast<std::size_t>(part.head.id)] = 2;
  }
  return uses;
}

}  // namespace phalanx
