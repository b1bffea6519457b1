#include "phalanx/data_parallel/flat_layout.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/reduce.h"

namespace phalanx {
namespace {

// The first offset at or after `begin` with the same offset within its block as `place`.
std::int64_t next_aligned(std::int64_t begin, std::int64_t place) {
  const std::int64_t distance = (place - begin) % ops::kSumBlock;
  return begin + (distance < 0 ? distance + ops::kSumBlock : distance);
}

}  // namespace

ParamGroups chunk_groups(const nn::ParamTable& table) {
  ParamGroups groups;
  for (ParamId id = 0; id < table.size(); ++id) {
    groups.of_parameter.push_back(table.trains(id) ? table.chunk(id) : -1);
  }
  for (int chunk = 0; chunk < table.num_chunks(); ++chunk) groups.chunk.push_back(chunk);
  groups.stays.assign(groups.chunk.size(), false);
  return groups;
}

int FlatLayout::group_at(std::int64_t element) const {
  const auto region = std::ranges::find_if(regions, [&](const FlatRange& range) {
    return range.begin <= element && element < range.end();
  });
  PHALANX_CHECK(region != regions.end(), "element {} is in no group", element);
  return static_cast<int>(region - regions.begin());
}

FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places,
                       const ParamGroups& groups, int shards) {
  const std::int64_t grid = shards * ops::kSumBlock;
  FlatLayout layout;
  layout.offsets.assign(table.specs().size(), -1);
  layout.regions.resize(groups.chunk.size());
  std::vector<std::vector<ParamId>> members(groups.chunk.size());
  for (ParamId id = table.size(); id-- > 0;) {
    if (!table.trains(id)) continue;
    members[static_cast<std::size_t>(groups.of_parameter[static_cast<std::size_t>(id)])].push_back(
        id);
  }
  for (std::size_t group = members.size(); group-- > 0;) {
    layout.elements = round_up(layout.elements, grid);
    layout.regions[group].begin = layout.elements;
    for (const ParamId id : members[group]) {
      const auto i = static_cast<std::size_t>(id);
      layout.offsets[i] = next_aligned(layout.elements, places.offsets[i]);
      layout.elements =
          round_up(layout.offsets[i] + table[id].local_shape.count(), kParameterAlignment);
    }
  }
  if (shards > 1) layout.elements = round_up(layout.elements, grid);
  std::int64_t end = layout.elements;
  for (FlatRange& region : layout.regions) {
    region.count = end - region.begin;
    end = region.begin;
  }
  return layout;
}

FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places, int shards) {
  return flat_layout(table, places, chunk_groups(table), shards);
}

FlatLayout flat_layout(const nn::ParamTable& table, int shards) {
  return flat_layout(table, whole_model_places(table), shards);
}

std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size, int shards) {
  std::vector<FlatRange> buckets;
  for (std::size_t group = layout.regions.size(); group-- > 0;) {
    const FlatRange& region = layout.regions[group];
    const std::int64_t size =
        bucket_size == 0 ? region.count : round_up(bucket_size, shards * ops::kSumBlock);
    for (std::int64_t begin = region.begin; begin < region.end(); begin += size) {
      buckets.push_back({begin, std::min(size, region.end() - begin)});
    }
  }
  return buckets;
}

std::int64_t default_bucket_size(int data_parallel_size) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * data_parallel_size);
}

std::vector<FlatRange> shard_of(const std::vector<FlatRange>& buckets, int rank, int shards) {
  std::vector<FlatRange> shard;
  for (const FlatRange& bucket : buckets) {
    PHALANX_CHECK(bucket.count % shards == 0, "a bucket of {} elements in {} shards", bucket.count,
                  shards);
    const std::int64_t count = bucket.count / shards;
    shard.push_back({bucket.begin + rank * count, count});
  }
  return shard;
}

std::vector<Segment> segments_of(const nn::ParamTable& table, const FlatLayout& layout,
                                 const std::vector<FlatRange>& shard) {
  std::vector<Segment> segments;
  for (ParamId id = 0; id < table.size(); ++id) {
    if (!table.trains(id)) continue;
    const std::int64_t offset = layout.offsets[static_cast<std::size_t>(id)];
    const std::int64_t end = offset + table[id].local_shape.count();
    std::int64_t local = 0;
    for (const FlatRange& range : shard) {
      const std::int64_t from = std::max(offset, range.begin);
      const std::int64_t to = std::min(end, range.end());
      if (from < to) {
        segments.push_back({.id = id,
                            .begin = from - offset,
                            .count = to - from,
                            .flat = from,
                            .local = local + from - range.begin,
                            .weight = from});
      }
      local += range.count;
    }
  }
  return segments;
}

std::int64_t total_count(const std::vector<FlatRange>& ranges) {
  std::int64_t count = 0;
  for (const FlatRange& range : ranges) count += range.count;
  return count;
}

}  // namespace phalanx
