#pragma once
// The part of a model that a rank of a pipeline has: its chunks, with the parameters of all of them
// in one table, and where these are in the whole model.

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/model_places.h"
#include "phalanx/model/model.h"
#include "phalanx/pipeline/placement.h"

namespace phalanx {

struct RankModel {
  // `model` is that of the rank's place in the tensor-parallel group, cut into these stages.
  RankModel(const Model& model, const Placement& placement, const std::vector<StageRange>& stages,
            int pipeline_rank);

  nn::ParamTable table;
  nn::ParamTable whole;  // of the model on one pipeline rank; its chunks are the stages
  ModelPlaces places;
  std::vector<Chunk> chunks;
  bool has_head = false;
  std::vector<SharedParameter> shared;  // of the whole model
};

}  // namespace phalanx
