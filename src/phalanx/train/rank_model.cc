#include "phalanx/train/rank_model.h"

#include <iterator>

#include "phalanx/base/error.h"

namespace phalanx {

RankModel::RankModel(const Model& model, const Placement& placement,
                     const std::vector<StageRange>& stages, int pipeline_rank) {
  PHALANX_CHECK(placement.directions() == 1, "a rank with parts of {} copies of the model",
                placement.directions());
  PHALANX_CHECK(std::ssize(stages) == placement.stages(), "{} stages on {} places", stages.size(),
                placement.stages());
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    rank_of_stage.push_back(placement.rank(stage));
    model.build_chunk(stages[static_cast<std::size_t>(stage)], whole);
  }
  for (int c = 0; c < placement.chunks(); ++c) {
    const StageRange& range = stages[static_cast<std::size_t>(placement.stage(pipeline_rank, c))];
    chunks.push_back(model.build_chunk(range, table));
    has_head = has_head || range.has_head;
  }
  shared = shared_parameters(whole, rank_of_stage);
  places = model_places(table, whole, shared, pipeline_rank);
}

}  // namespace phalanx
