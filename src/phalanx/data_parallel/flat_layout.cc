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
  // By chunk: whether it has a group of the domain, and the group's number.
  const auto chunks = static_cast<std::size_t>(table.num_chunks());
  std::vector<PerDomain<bool>> has(chunks, {.dense = true});
  for (ParamId id = 0; id < table.size(); ++id) {
    if (table.trains(id)) has[static_cast<std::size_t>(table.chunk(id))][table[id].domain] = true;
  }
  std::vector<PerDomain<int>> number(chunks);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (const ReductionDomain domain : kReductionDomains) {
      if (!has[chunk][domain]) continue;
      number[chunk][domain] = groups.size();
      groups.chunk.push_back(static_cast<int>(chunk));
      groups.domain.push_back(domain);
    }
  }
  for (ParamId id = 0; id < table.size(); ++id) {
    const PerDomain<int>& of_chunk = number[static_cast<std::size_t>(table.chunk(id))];
    groups.of_parameter.push_back(table.trains(id) ? of_chunk[table[id].domain] : -1);
  }
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
                       const ParamGroups& groups, const PerDomain<int>& shards) {
  FlatLayout layout;
  for (const ReductionDomain domain : groups.domain) layout.shards.push_back(shards[domain]);
  layout.offsets.assign(table.specs().size(), -1);
  layout.regions.resize(groups.chunk.size());
  std::vector<std::vector<ParamId>> members(groups.chunk.size());
  for (ParamId id = table.size(); id-- > 0;) {
    if (!table.trains(id)) continue;
    members[static_cast<std::size_t>(groups.of_parameter[static_cast<std::size_t>(id)])].push_back(
        id);
  }
  for (std::size_t group = members.size(); group-- > 0;) {
    const std::int64_t begin = round_up(layout.elements, ops::kSumBlock);
    layout.elements = begin;
    layout.regions[group].begin = begin;
    for (const ParamId id : members[group]) {
      const auto i = static_cast<std::size_t>(id);
      layout.offsets[i] = next_aligned(layout.elements, places.offsets[i]);
      layout.elements =
          round_up(layout.offsets[i] + table[id].local_shape.count(), kParameterAlignment);
    }
    if (layout.shards[group] == 1) continue;
    layout.elements =
        begin + round_up(layout.elements - begin, layout.shards[group] * ops::kSumBlock);
  }
  std::int64_t end = layout.elements;
  for (FlatRange& region : layout.regions) {
    region.count = end - region.begin;
    end = region.begin;
  }
  return layout;
}

FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places, int shards) {
  return flat_layout(table, places, chunk_groups(table), {shards, shards});
}

FlatLayout flat_layout(const nn::ParamTable& table, int shards) {
  return flat_layout(table, whole_model_places(table), shards);
}

std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size) {
  std::vector<FlatRange> buckets;
  for (std::size_t group = layout.regions.size(); group-- > 0;) {
    const FlatRange& region = layout.regions[group];
    const std::int64_t size = bucket_size == 0
                                  ? region.count
                                  : round_up(bucket_size, layout.shards[group] * ops::kSumBlock);
    for (std::int64_t begin = region.begin; begin < region.end(); begin += size) {
      buckets.push_back({begin, std::min(size, region.end() - begin)});
    }
  }
  return buckets;
}

std::int64_t default_bucket_size(int data_parallel_size) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * data_parallel_size);
}

FlatRange shard_of(const FlatRange& bucket, int rank, int shards) {
  PHALANX_CHECK(bucket.count % shards == 0, "a bucket of {} elements in {} shards", bucket.count,
                shards);
  const std::int64_t count = bucket.count / shards;
  return {bucket.begin + rank * count, count};
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
