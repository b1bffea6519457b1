#include "phalanx/rank/rank_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

nn::ParamTable table_of(const Model& model, const std::vector<StageRange>& stages,
                        const IsFrozen& is_frozen) {
  nn::ParamTable table;
  table.freeze(is_frozen);
  for (const StageRange& range : stages) model.build_chunk(range, table);
  return table;
}

std::vector<int> ranks_of_stages(const Placement& placement) {
  std::vector<int> ranks;
  for (int stage = 0; stage < placement.stages(); ++stage) ranks.push_back(placement.rank(stage));
  return ranks;
}

int most_box_holders(const nn::ParamTable& table) {
  int holders = 1;
  for (const ParamSpec& spec : table.specs()) holders = std::max(holders, most_holders(spec));
  return holders;
}

// The first stage that has a trained parameter or a role of one.
int first_trained(const nn::ParamTable& whole) {
  int first = whole.num_chunks();
  for (ParamId id = 0; id < whole.size(); ++id) {
    if (whole.trains(id)) first = std::min(first, whole.chunk(id));
  }
  for (const auto& role : whole.roles()) {
    if (whole.trains(role.id)) first = std::min(first, role.chunk);
  }
  return first;
}

}  // namespace

WholeModel::WholeModel(const Model& model, const Placement& placement,
                       std::vector<StageRange> ranges, IsFrozen frozen)
    : stages(std::move(ranges)),
      is_frozen(std::move(frozen)),
      table(table_of(model, stages, is_frozen)),
      shared(shared_parameters(table, ranks_of_stages(placement))),
      places(table),
      most_holders(most_box_holders(table)),
      first_trained_stage(first_trained(table)) {
  PHALANX_CHECK(placement.directions() == 1, "a rank with parts of {} copies of the model",
                placement.directions());
}

RankModel::RankModel(const Model& model, const Placement& placement,
                     std::shared_ptr<const WholeModel> of_all, int pipeline_rank)
    : whole(std::move(of_all)) {
  PHALANX_CHECK(std::ssize(whole->stages) == placement.stages(), "{} stages on {} places",
                whole->stages.size(), placement.stages());
  table.freeze(whole->is_frozen);
  for (int c = 0; c < placement.chunks(); ++c) {
    const int stage = placement.stage(pipeline_rank, c);
    const StageRange& range = whole->stages[static_cast<std::size_t>(stage)];
    chunks.push_back(model.build_chunk(range, table));
    chunks.back().leave_out_frozen(table, stage > whole->first_trained_stage);
    has_head = has_head || range.has_head;
  }
  places = whole->places.of(table, whole->shared, pipeline_rank);
}

}  // namespace phalanx
