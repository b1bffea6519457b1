// The buckets of Megatron's T5 (models/common/embeddings/relative_pos_embedding.py), run in
// PyTorch.

#include "phalanx/ops/relative_bias.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace phalanx::ops {
namespace {

// Where the bucket changes, over distances of the past side.
std::vector<std::pair<std::int64_t, std::int64_t>> steps(const RelativeBuckets& buckets,
                                                         std::int64_t distances) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (std::int64_t distance = 0; distance < distances; ++distance) {
    const std::int64_t bucket = relative_bucket(buckets, -distance);
    if (found.empty() || found.back().second != bucket) found.emplace_back(distance, bucket);
  }
  return found;
}

TEST(RelativeBuckets, StepWhereMegatronsDo) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> bidirectional = {
      {0, 0}, {1, 1},  {2, 2},   {3, 3},   {4, 4},   {5, 5},   {6, 6},   {7, 7},
      {8, 8}, {12, 9}, {16, 10}, {23, 11}, {32, 12}, {46, 13}, {64, 14}, {91, 15}};
  EXPECT_EQ(steps({}, 5000), bidirectional);
  std::vector<std::pair<std::int64_t, std::int64_t>> causal;
  for (std::int64_t i = 0; i <= 16; ++i) causal.emplace_back(i, i);
  for (const auto& step : std::vector<std::pair<std::int64_t, std::int64_t>>{{19, 17},
                                                                             {21, 18},
                                                                             {24, 19},
                                                                             {27, 20},
                                                                             {31, 21},
                                                                             {35, 22},
                                                                             {40, 23},
                                                                             {46, 24},
                                                                             {52, 25},
                                                                             {59, 26},
                                                                             {67, 27},
                                                                             {77, 28},
                                                                             {87, 29},
                                                                             {99, 30},
                                                                             {113, 31}}) {
    causal.push_back(step);
  }
  EXPECT_EQ(steps({.bidirectional = false}, 5000), causal);
}

TEST(RelativeBuckets, SeparateTheSidesOfABidirectionalStack) {
  const std::vector<std::int64_t> expected = {9,  8,  8,  8,  8,  7,  6,  5,  4,  3,  2,  1, 0,
                                              17, 18, 19, 20, 21, 22, 23, 24, 24, 24, 24, 25};
  std::vector<std::int64_t> actual;
  for (std::int64_t i = -12; i <= 12; ++i) actual.push_back(relative_bucket({}, i));
  EXPECT_EQ(actual, expected);
  for (const std::int64_t after : {1, 5, 1000}) {
    EXPECT_EQ(relative_bucket({.bidirectional = false}, after), 0);
  }
}

// Every bucket is in range and none falls where the distance grows, whatever the sizes.
TEST(RelativeBuckets, AreMonotoneAndInRange) {
  for (const std::int64_t count : {2, 3, 4, 5, 7, 32, 33, 200}) {
    for (const std::int64_t max_distance : {2, 5, 17, 128, 1 << 20}) {
      for (const bool bidirectional : {false, true}) {
        const RelativeBuckets buckets{count, max_distance, bidirectional};
        if (!buckets.are_valid()) continue;
        for (const std::int64_t side : {-1, 1}) {
          std::int64_t last = 0;
          for (std::int64_t distance = 0; distance < 3000; ++distance) {
            const std::int64_t bucket = relative_bucket(buckets, side * distance);
            ASSERT_GE(bucket, last);
            ASSERT_LT(bucket, count);
            last = bucket;
          }
        }
        const std::int64_t far = relative_bucket(buckets, -(std::int64_t{1} << 60));
        EXPECT_EQ(far, buckets.of_side() - 1);
      }
    }
  }
}

TEST(RelativeBuckets, NeedTwoOfASideAndADistanceBeyondTheExactOnes) {
  EXPECT_FALSE((RelativeBuckets{3, 128, true}.are_valid()));
  EXPECT_TRUE((RelativeBuckets{4, 128, true}.are_valid()));
  EXPECT_FALSE((RelativeBuckets{1, 128, false}.are_valid()));
  EXPECT_FALSE((RelativeBuckets{32, 8, true}.are_valid()));
  EXPECT_TRUE((RelativeBuckets{32, 9, true}.are_valid()));
}

}  // namespace
}  // namespace phalanx::ops
