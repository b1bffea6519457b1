#include "phalanx/data_parallel/flat_layout.h"

#include <gtest/gtest.h>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/ops/reduce.h"

namespace phalanx {
namespace {

std::vector<FlatRange> shard_of_all(const std::vector<FlatRange>& buckets, int rank, int shards) {
  std::vector<FlatRange> shard;
  for (const FlatRange& bucket : buckets) shard.push_back(shard_of(bucket, rank, shards));
  return shard;
}

TEST(FlatLayout, LastParameterFirstAtMultiplesOf64) {
  nn::ParamTable table;
  const Initialiser normal{Initialiser::Kind::kNormal, 0.5};
  table.add(whole_parameter("a", {10, 10}, DType::kF32, normal));
  table.add(whole_parameter("b", {7}, DType::kF32, {}));
  table.add(whole_parameter("c", {5, 13}, DType::kF32, normal, 8));
  table.add(whole_parameter("d", {64}, DType::kF32, {}));
  const FlatLayout layout = flat_layout(table);
  EXPECT_EQ(layout.offsets, (std::vector<std::int64_t>{256, 192, 64, 0}));
  EXPECT_EQ(layout.elements, 384);
}

// Every cut has the same sum blocks.
TEST(FlatLayout, ShardsMoveNoParameter) {
  const nn::ParamTable table = uneven_table(DType::kF32);
  const FlatLayout whole = flat_layout(table);
  for (const int shards : {2, 3, 7}) {
    const FlatLayout layout = flat_layout(table, shards);
    EXPECT_EQ(layout.offsets, whole.offsets);
    EXPECT_EQ(layout.elements % (shards * ops::kSumBlock), 0);
    EXPECT_GE(layout.elements, whole.elements);
    EXPECT_LT(layout.elements, whole.elements + shards * ops::kSumBlock);
  }
}

TEST(FlatLayout, BucketsCoverTheBuffer) {
  const nn::ParamTable table = uneven_table(DType::kF32);
  for (const int shards : {1, 2, 3, 7}) {
    const FlatLayout layout = flat_layout(table, shards);
    for (const std::int64_t size : {0, 1, 5000, 20000, 1 << 30}) {
      const auto buckets = cut_buckets(layout, size);
      std::int64_t end = 0;
      for (const FlatRange& bucket : buckets) {
        EXPECT_EQ(bucket.begin, end);
        EXPECT_EQ(bucket.begin % ops::kSumBlock, 0);
        EXPECT_GT(bucket.count, 0);
        if (shards > 1) {
          EXPECT_EQ(bucket.count % (shards * ops::kSumBlock), 0);
        }
        if (&bucket != &buckets.back() && size > 0) {
          EXPECT_GE(bucket.count, size);
          EXPECT_LT(bucket.count, size + shards * ops::kSumBlock);
        }
        end = bucket.end();
      }
      EXPECT_EQ(end, layout.elements);
      EXPECT_EQ(total_count(buckets), layout.elements);
      if (size == 0 || size == 1 << 30) {
        EXPECT_EQ(buckets.size(), 1U);
      }
    }
  }
}

TEST(FlatLayout, DefaultBucketsGrowWithTheGroup) {
  EXPECT_EQ(default_bucket_size(1), 40'000'000);
  EXPECT_EQ(default_bucket_size(40), 40'000'000);
  EXPECT_EQ(default_bucket_size(64), 64'000'000);
}

// The shards of all ranks cover every element once, in equal parts of every bucket.
TEST(FlatLayout, ShardsArePartsOfEveryBucket) {
  const nn::ParamTable table = uneven_table(DType::kF32);
  for (const int shards : {1, 2, 3}) {
    const FlatLayout layout = flat_layout(table, shards);
    for (const std::int64_t size : {0, 1, 20000}) {
      const auto buckets = cut_buckets(layout, size);
      std::vector<int> owners(static_cast<std::size_t>(layout.elements), 0);
      for (int rank = 0; rank < shards; ++rank) {
        const auto shard = shard_of_all(buckets, rank, shards);
        ASSERT_EQ(shard.size(), buckets.size());
        for (std::size_t b = 0; b < shard.size(); ++b) {
          EXPECT_EQ(shard[b].begin, buckets[b].begin + rank * buckets[b].count / shards);
          EXPECT_EQ(shard[b].count, buckets[b].count / shards);
          EXPECT_EQ(shard[b].begin % ops::kSumBlock, 0);
          for (std::int64_t i = shard[b].begin; i < shard[b].end(); ++i) {
            ++owners[static_cast<std::size_t>(i)];
          }
        }
      }
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
    }
  }
}

TEST(FlatLayout, ABucketIsCutIntoEqualParts) {
  EXPECT_THROW(shard_of({0, 100}, 0, 3), InternalError);
}

// Over all ranks, every element of every parameter is in one segment. A shard's segments lie in its
// ranges, without gaps.
TEST(FlatLayout, SegmentsCoverTheParametersOfTheShards) {
  const nn::ParamTable table = uneven_table(DType::kF32);
  for (const int shards : {1, 2, 3}) {
    const FlatLayout layout = flat_layout(table, shards);
    for (const std::int64_t size : {0, 1, 20000}) {
      const auto buckets = cut_buckets(layout, size);
      std::vector<std::vector<int>> seen;
      for (const ParamSpec& spec : table.specs()) {
        seen.emplace_back(static_cast<std::size_t>(spec.local_shape.count()), 0);
      }
      bool cuts_a_parameter = false;
      for (int rank = 0; rank < shards; ++rank) {
        const auto shard = shard_of_all(buckets, rank, shards);
        std::vector<std::int64_t> flat_of_local;
        for (const FlatRange& range : shard) {
          for (std::int64_t i = range.begin; i < range.end(); ++i) flat_of_local.push_back(i);
        }
        const auto segments = segments_of(table, layout, shard);
        for (std::size_t s = 0; s < segments.size(); ++s) {
          const Segment& segment = segments[s];
          const auto id = static_cast<std::size_t>(segment.id);
          EXPECT_GT(segment.count, 0);
          EXPECT_EQ(segment.flat, layout.offsets[id] + segment.begin);
          cuts_a_parameter |= segment.begin > 0;
          for (std::int64_t i = 0; i < segment.count; ++i) {
            ASSERT_EQ(flat_of_local.at(static_cast<std::size_t>(segment.local + i)),
                      segment.flat + i);
            ++seen[id].at(static_cast<std::size_t>(segment.begin + i));
          }
          if (s == 0) continue;
          const Segment& previous = segments[s - 1];
          EXPECT_TRUE(
              previous.id < segment.id ||
              (previous.id == segment.id && previous.begin + previous.count <= segment.begin));
        }
      }
      for (const auto& counts : seen) EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
      EXPECT_EQ(cuts_a_parameter, shards > 1 || size > 0);
    }
  }
}

}  // namespace
}  // namespace phalanx
