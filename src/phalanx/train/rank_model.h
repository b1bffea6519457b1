#pragma once
// The part of a model that a rank of a pipeline has: its chunks, with the parameters of all of them
// in one table, and where these are in the whole model.

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/model_places.h"
#include "phalanx/model/gpt.h"
#include "phalanx/pipeline/placement.h"

namespace phalanx {

struct RankModel {
  // `model` is that of the rank's place in the tensor-parallel group; stage s has layers[s] of it.
  RankModel(const GptConfig& model, const Placement& placement,
            const std::vector<std::int64_t>& layers, int pipeline_rank);

  nn::ParamTable table;
  nn::ParamTable whole;  // of the model on one pipeline rank
  ModelPlaces places;
  std::vector<Chunk> chunks;
  bool has_head = false;
  bool shares_embedding = false;  // has one of two copies of a tied word table
};

}  // namespace phalanx
