#include "phalanx/train/rank_model.h"

#include <numeric>

#include "phalanx/base/error.h"

namespace phalanx {

RankModel::RankModel(const GptConfig& model, const Placement& placement,
                     const std::vector<std::int64_t>& layers, int pipeline_rank) {
  PHALANX_CHECK(placement.directions() == 1, "a rank with parts of {} copies of the model",
                placement.directions());
  const int last_stage = placement.stages() - 1;
  const bool ends_apart = placement.rank(0) != placement.rank(last_stage);
  for (int c = 0; c < placement.chunks(); ++c) {
    const int stage = placement.stage(pipeline_rank, c);
    const auto begin = layers.begin();
    ChunkRange range{.first_layer = std::accumulate(begin, begin + stage, std::int64_t{0}),
                     .num_layers = layers[static_cast<std::size_t>(stage)],
                     .embedding = stage == 0,
                     .head = stage == last_stage};
    range.tied_elsewhere = model.tied_embedding && range.embedding && ends_apart;
    chunks.push_back(build_gpt_chunk(model, range, table));
    has_head = has_head || range.head;
    shares_embedding =
        shares_embedding || (model.tied_embedding && ends_apart && (range.embedding || range.head));
  }
  build_gpt_chunk(model, {0, model.transformer.num_layers, true, true}, whole);
  places = model_places(table, whole);
}

}  // namespace phalanx
