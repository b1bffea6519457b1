#include "phalanx/data_parallel/state_layout.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

StateLayout::StateLayout(const nn::ParamTable& table, StateCut cut)
    : StateLayout(table, whole_model_places(table), std::move(cut)) {}

StateLayout::StateLayout(const nn::ParamTable& table, ModelPlaces places, StateCut cut)
    : table_(&table), places_(std::move(places)), cut_(std::move(cut)) {
  if (cut_.groups.of_parameter.empty()) cut_.groups = chunk_groups(table);
  flat_ = flat_layout(table, places_, cut_.groups, cut_.ranks);
  const std::vector<FlatRange> ranges = cut_buckets(flat_, cut_.bucket_size, cut_.ranks);
  const std::vector<FlatRange> shard = shard_of(ranges, cut_.rank, cut_.ranks);
  std::vector<FlatRange> own = shard;
  // Without a cut a parameter is one segment, however it is sent.
  if (!is_sharded()) own = cut_buckets(flat_, 0, 1);
  segments_ = segments_of(table, flat_, own);
  buckets_of_.resize(table.specs().size());
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    const int group = flat_.group_at(ranges[b].begin);
    buckets_.push_back({.range = ranges[b],
                        .group = group,
                        .own = shard[b],
                        .local = shard_elements_,
                        .weights = weight_elements_});
    shard_elements_ += shard[b].count;
    weight_elements_ += cuts_weights(group) ? shard[b].count : ranges[b].count;
    for (const Segment& part : segments_of(table, flat_, {ranges[b]})) {
      buckets_of_[static_cast<std::size_t>(part.id)].push_back(b);
    }
  }
  for (Segment& segment : segments_) segment.weight = weight_place(segment);
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
  return weight_place({.id = id, .flat = flat_.offsets[static_cast<std::size_t>(id)]});
}

}  // namespace phalanx
