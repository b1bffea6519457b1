#include "phalanx/data_parallel/state_layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

StateLayout::StateLayout(const nn::ParamTable& table, StateCut cut)
    : StateLayout(table, whole_model_places(table), std::move(cut)) {}

StateLayout::StateLayout(const nn::ParamTable& table, ModelPlaces places, StateCut cut)
    : table_(&table), places_(std::move(places)), cut_(std::move(cut)) {
  if (cut_.groups.of_parameter.empty()) cut_.groups = chunk_groups(table);
  const PerDomain<DomainCut>& domains = cut_.domains;
  flat_ = flat_layout(table, places_, cut_.groups, {domains.dense.ranks, domains.expert.ranks});
  buckets_of_.resize(table.specs().size());
  for (const FlatRange& range : cut_buckets(flat_, cut_.bucket_size)) {
    const int group = flat_.group_at(range.begin);
    const DomainCut& ranks = domains[domain(group)];
    const FlatRange own = shard_of(range, ranks.rank, ranks.ranks);
    for (const Segment& part : segments_of(table, flat_, {range})) {
      buckets_of_[static_cast<std::size_t>(part.id)].push_back(buckets_.size());
    }
    buckets_.push_back({.range = range,
                        .group = group,
                        .own = own,
                        .local = shard_elements_,
                        .weights = weight_elements_});
    shard_elements_ += own.count;
    if (!cuts_weights(group)) {
      weight_elements_ += range.count;
    } else if (!cut_.weights_in_files) {
      weight_elements_ += own.count;
    }
  }
  cut_buckets_into_tiles();
  place_frozen();
}

bool StateLayout::cuts_weights() const {
  for (int group = 0; group < groups().size(); ++group) {
    if (cuts_weights(group)) return true;
  }
  return false;
}

void StateLayout::place_frozen() {
  for (ParamId id = 0; id < table_->size(); ++id) {
    if (table_->trains(id)) continue;
    const ParamSpec& spec = (*table_)[id];
    const std::int64_t count = spec.local_shape.count();
    const std::int64_t begin = round_up(weight_elements_, kParameterAlignment);
    frozen_.push_back({.id = id,
                       .count = count,
                       .flat = -1,
                       .local = -1,
                       .weight = spec.is_state ? -1 : begin,
                       .tile = static_cast<int>(tiles_.size() + frozen_.size()),
                       .memory = -1});
    if (!spec.is_state) weight_elements_ = begin + count;
  }
}

void StateLayout::cut_buckets_into_tiles() {
  std::vector<FlatRange> ranges;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    for (std::int64_t begin = 0; begin < bucket.own.count; begin += cut_.tile) {
      const std::int64_t count = std::min(cut_.tile, bucket.own.count - begin);
      ranges.push_back({bucket.own.begin + begin, count});
      tiles_.push_back({.bucket = b, .local = {bucket.local + begin, count}, .segments = {}});
    }
  }
  place_in_files();
  segments_ = segments_of(*table_, flat_, ranges);
  for (Segment& segment : segments_) {
    const auto behind = std::ranges::upper_bound(tiles_, segment.local, {},
                                                 [](const Tile& tile) { return tile.local.begin; });
    Tile& tile = *std::prev(behind);
    segment.tile = static_cast<int>(&tile - tiles_.data());
    segment.memory = tile.memory + segment.local - tile.local.begin;
    segment.weight = tile.weights_in_file ? -1 : weight_place(segment);
    tile.segments.push_back(segment);
  }
}

void StateLayout::place_in_files() {
  const auto stays = [this](const Tile& tile) {
    return cut_.groups.stays[static_cast<std::size_t>(buckets_[tile.bucket].group)];
  };
  std::int64_t movable = 0;
  for (const Tile& tile : tiles_) movable += stays(tile) ? 0 : tile.local.count;
  const auto wanted = static_cast<double>(movable) * cut_.states_in_files;
  std::int64_t in_files = 0;
  for (Tile& tile : tiles_) {
    tile.weights_in_file = cut_.weights_in_files && !stays(tile);
    tile.states_in_file = !stays(tile) && static_cast<double>(in_files) < wanted;
    tile.memory = memory_elements_;
    (tile.states_in_file ? in_files : memory_elements_) += tile.local.count;
  }
}

std::int64_t StateLayout::largest_tile_in_file() const {
  std::int64_t largest = 0;
  for (const Tile& tile : tiles_) {
    if (tile.states_in_file || tile.weights_in_file) largest = std::max(largest, tile.local.count);
  }
  return largest;
}

std::int64_t StateLayout::weight_place(const Segment& segment) const {
  for (const std::size_t b : buckets_of(segment.id)) {
    const Bucket& bucket = buckets_[b];
    const FlatRange& kept = cuts_weights(bucket.group) ? bucket.own : bucket.range;
    if (kept.begin <= segment.flat && segment.flat < kept.end()) {
      return bucket.weights + segment.flat - kept.begin;
    }
  }
  PHALANX_CHECK(false, "no bucket has element {} of {}", segment.begin, (*table_)[segment.id].name);
  return -1;
}

std::int64_t StateLayout::weight_offset(ParamId id) const {
  if (!table_->trains(id)) return std::ranges::find(frozen_, id, &Segment::id)->weight;
  return weight_place({.id = id, .flat = flat_.offsets[static_cast<std::size_t>(id)]});
}

std::int64_t counted_padding(const nn::ParamTable& whole, const PerDomain<int>& tensor_ranks) {
  std::int64_t count = 0;
  for (const ParamSpec& spec : whole.specs()) {
    if (!spec.trainable) continue;
    const int parts = spec.cut_over.has(Axis::kTensor) ? tensor_ranks[spec.domain] : 1;
    const std::int64_t common = common_count(spec);
    count += parts * (spec.local_shape.count() - common) + parts / most_holders(spec) * common -
             spec.global_shape.count();
  }
  return count;
}

}  // namespace phalanx
