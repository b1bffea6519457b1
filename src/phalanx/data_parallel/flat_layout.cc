#include "phalanx/data_parallel/flat_layout.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/reduce.h"

namespace phalanx {
namespace {

constexpr std::int64_t kParameterAlignment = 64;  // elements

}  // namespace

FlatLayout flat_layout(const nn::ParamTable& table, int shards) {
  FlatLayout layout;
  layout.offsets.resize(table.specs().size());
  for (ParamId id = table.size(); id-- > 0;) {
    layout.offsets[static_cast<std::size_t>(id)] = layout.elements;
    layout.elements =
        round_up(layout.elements + table[id].local_shape.count(), kParameterAlignment);
  }
  if (shards > 1) layout.elements = round_up(layout.elements, shards * ops::kSumBlock);
  return layout;
}

std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size, int shards) {
  if (bucket_size == 0) return {{0, layout.elements}};
  const std::int64_t size = round_up(bucket_size, shards * ops::kSumBlock);
  std::vector<FlatRange> buckets;
  for (std::int64_t begin = 0; begin < layout.elements; begin += size) {
    buckets.push_back({begin, std::min(size, layout.elements - begin)});
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
                            .local = local + from - range.begin});
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
