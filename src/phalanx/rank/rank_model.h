#pragma once
// The part of a model that a rank of a pipeline has: its chunks, with the parameters of all of them
// in one table, and where these are in the whole model.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/data_parallel/model_places.h"
#include "phalanx/model/model.h"
#include "phalanx/pipeline/placement.h"

namespace phalanx {

// Whether a parameter of this name is not trained; empty: all are.
using IsFrozen = std::function<bool(const std::string& name)>;

// The whole model as one table, its stages in order, with all experts. The ranks of one place in
// the tensor-parallel group and in the expert-tensor group have the same.
struct WholeModel {
  // `model` is the part of such a place, cut into these stages.
  WholeModel(const Model& model, const Placement& placement, std::vector<StageRange> ranges,
             IsFrozen frozen = {});
  WholeModel(const WholeModel&) = delete;
  WholeModel& operator=(const WholeModel&) = delete;

  std::vector<StageRange> stages;
  IsFrozen is_frozen;
  nn::ParamTable table;
  std::vector<SharedParameter> shared;
  PlacesByName places;
  int most_holders = 1;         // tensor-parallel neighbours that have one box of a parameter
  int first_trained_stage = 0;  // stages in front of it have no backward passes
};

// Whole models by place in the tensor-parallel group and in the expert-tensor group. Each is made
// at its first use.
using WholeModels = std::map<std::pair<int, int>, std::shared_ptr<const WholeModel>>;

struct RankModel {
  RankModel(const Model& model, const Placement& placement,
            std::shared_ptr<const WholeModel> of_all, int pipeline_rank);

  std::shared_ptr<const WholeModel> whole;
  nn::ParamTable table;
  ModelPlaces places;
  std::vector<Chunk> chunks;
  bool has_head = false;
};

}  // namespace phalanx
