#include "phalanx/saving/part_contents.h"

#include <string>
#include <string_view>
#include <utility>

#include "phalanx/checkpoint/checkpoint_writer.h"  // names of optimizer tensors
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

std::string prefix_of(const Rank& rank, const SavedRange& range) {
  switch (range.column) {
    case SavedRange::Column::kMoment:
      return state_prefix(rank.optimizer().state_names()[range.moment]);
    case SavedRange::Column::kMain:
      return std::string(kMainParamPrefix);
    case SavedRange::Column::kWeight:
      break;
  }
  return {};
}

}  // namespace

std::vector<PartWriter::Piece> part_pieces(const Rank& rank, std::span<const SavedTile> tiles) {
  std::vector<PartWriter::Piece> pieces;
  for (const SavedTile& tile : tiles) {
    for (const SavedRange& range : tile.ranges) {
      PartWriter::Piece& piece = pieces.emplace_back(
          PartWriter::Piece{.tensor = prefix_of(rank, range) + rank.table()[range.segment.id].name,
                            .dtype = range.local.dtype,
                            .boxes = {}});
      for (const ParamBox& box : range.boxes) piece.boxes.push_back(global_box(box));
    }
  }
  return pieces;
}

std::vector<Manifest::Entry> tensors_in_parts(const Rank& rank, SavedContent content) {
  std::vector<Manifest::Entry> tensors;
  const bool stores_weights = saves_weights(rank, content.with_optimizer);
  const auto add = [&](const std::string& prefix, bool is_weight) {
    for (const ParamSpec& spec : rank.whole_table().specs()) {
      if (!spec.trainable && (!is_weight || !content.with_frozen)) continue;
      tensors.push_back({.name = prefix + spec.name,
                         .dtype = is_weight ? spec.dtype : nn::full_precision(spec.dtype),
                         .shape = spec.global_shape,
                         .file = {},
                         .rounded_from = is_weight && spec.trainable && !stores_weights
                                             ? std::string(kMainParamPrefix) + spec.name
                                             : std::string()});
    }
  };
  add("", true);
  if (!content.with_optimizer) return tensors;
  for (const std::string_view name : rank.optimizer().state_names()) add(state_prefix(name), false);
  if (rank.parameters().has_main_parameters()) add(std::string(kMainParamPrefix), false);
  return tensors;
}

std::int64_t stored_bytes(std::span<const Manifest::Entry> tensors) {
  std::int64_t bytes = 0;
  for (const Manifest::Entry& tensor : tensors) {
    if (tensor.rounded_from.empty()) bytes += tensor.shape.count() * size_of(tensor.dtype);
  }
  return bytes;
}

}  // namespace phalanx
