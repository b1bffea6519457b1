#include "phalanx/rank/saved_tiles.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace phalanx {

std::int64_t SavedTile::bytes() const {
  std::int64_t bytes = 0;
  for (const SavedRange& range : ranges) bytes += range.bytes();
  return bytes;
}

bool SavedTile::in_file() const { return std::ranges::any_of(ranges, &SavedRange::in_file); }

bool saves_weights(const Rank& rank, bool with_optimizer) {
  return !with_optimizer || !rank.parameters().has_main_parameters();
}

std::vector<SavedTile> saved_tiles(const Rank& rank, SavedContent content) {
  const ParameterStore& parameters = rank.parameters();
  const StateLayout& states = parameters.states();
  const Optimizer& optimizer = rank.optimizer();
  std::map<int, SavedTile> tiles;
  const auto add = [&](SavedRange range, const TileFile* file, auto&& in_memory) {
    range.in_file = file != nullptr && file->has(range.segment.tile);
    if (range.in_file) {
      range.local.dtype = file->dtype();
      range.local.shape = {range.segment.count};
    } else {
      range.local = in_memory(range.segment);
    }
    SavedTile& tile = tiles[range.segment.tile];
    tile.tile = range.segment.tile;
    tile.ranges.push_back(std::move(range));
  };
  using enum SavedRange::Column;
  for (const auto& piece : pieces(states, Writers::kAll)) {
    const auto& segment = piece.segment;
    const auto& boxes = piece.boxes;
    const auto add_column = [&](SavedRange::Column column, std::size_t moment,
                                const StateColumn& states_of) {
      add({.column = column, .moment = moment, .segment = segment, .boxes = boxes, .local = {}},
          states_of.file(), [&](const Segment& s) { return states_of.in_memory(s); });
    };
    if (saves_weights(rank, content.with_optimizer)) {
      add({.column = kWeight, .segment = segment, .boxes = boxes, .local = {}},
          parameters.weight_file(), [&](const Segment& s) { return parameters.weight(s); });
    }
    if (!content.with_optimizer) continue;
    std::size_t moment = 0;
    for (const std::string_view name : optimizer.state_names()) {
      add_column(kMoment, moment++, optimizer.state(name));
    }
    if (parameters.has_main_parameters()) {
      add_column(kMain, 0, *parameters.accesses(true, false)[0].column);
    }
  }
  const auto frozen = content.with_frozen ? frozen_pieces(states) : std::vector<Piece>();
  for (const auto& [segment, boxes] : frozen) {
    add({.column = kWeight, .segment = segment, .boxes = boxes, .local = {}}, nullptr,
        [&](const Segment& s) { return parameters.weight(s); });
  }
  std::vector<SavedTile> in_order;
  for (auto& [number, tile] : tiles) in_order.push_back(std::move(tile));
  return in_order;
}

std::int64_t most_saved_bytes(const Rank& rank, SavedContent content) {
  const ParameterStore& parameters = rank.parameters();
  const StateLayout& states = parameters.states();
  const DType storage = rank.table()[0].dtype;
  std::int64_t columns = 0;  // bytes of an element
  if (saves_weights(rank, content.with_optimizer)) columns += size_of(storage);
  if (content.with_optimizer) {
    const auto moments = std::ssize(rank.optimizer().state_names());
    columns += (moments + (parameters.has_main_parameters() ? 1 : 0)) *
               size_of(nn::full_precision(storage));
  }
  PerDomain<std::vector<std::int64_t>> bytes;  // by copy
  for (const ReductionDomain domain : kReductionDomains) {
    bytes[domain].resize(static_cast<std::size_t>(states.copies(domain)));
  }
  for (const StateLayout::Tile& tile : states.tiles()) {
    const auto number = static_cast<std::size_t>(&tile - states.tiles().data());
    std::vector<std::int64_t>& of_domain =
        bytes[states.domain(states.buckets()[tile.bucket].group)];
    of_domain[number % of_domain.size()] += tile.local.count * columns;
  }
  if (content.with_frozen) {
    for (const Segment& segment : states.frozen()) {
      const ParamSpec& spec = rank.table()[segment.id];
      bytes[spec.domain][0] += segment.count * size_of(spec.dtype);
    }
  }
  return std::ranges::max(bytes.dense) + std::ranges::max(bytes.expert);
}

}  // namespace phalanx
