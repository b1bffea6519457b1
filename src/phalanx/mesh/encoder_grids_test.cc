// Grids of an encoder and a decoder. The groups are those of Megatron-core's generator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/mesh/parallel_grids.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

std::map<std::string_view, RankGroups> groups_of(const ParallelSizes& sizes,
                                                 std::string_view order = kDefaultOrder) {
  std::map<std::string_view, RankGroups> groups;
  for (const auto& family : group_families(parallel_grids(sizes, order))) {
    groups[family.name] = family.groups;
  }
  return groups;
}

std::string message_of(const ParallelSizes& sizes) {
  return error_of<ConfigError>([&] { parallel_grids(sizes); });
}

TEST(EncoderGrids, SplitRank) {
  auto groups = groups_of({.world = 4, .pipeline = 4, .split_rank = 2});
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 1, 2, 3}}));
  EXPECT_EQ(groups["embd"], (RankGroups{{0, 2, 3}}));
  EXPECT_EQ(groups["pos_embd"], (RankGroups{{0, 2}}));

  groups = groups_of({.world = 12, .tensor = 2, .pipeline = 3, .split_rank = 1});
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}));
  EXPECT_EQ(groups["embd"], groups["pp"]);
  EXPECT_EQ(groups["pos_embd"], (RankGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));

  // The decoder's only stage has its embedding and the head.
  groups = groups_of({.world = 4, .pipeline = 2, .split_rank = 1});
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups["embd"], groups["pp"]);
  EXPECT_EQ(groups["pos_embd"], groups["pp"]);
}

TEST(EncoderGrids, AnEncoderWithFewerTensorRanks) {
  auto groups = groups_of(
      {.world = 5, .tensor = 2, .pipeline = 2, .encoder_pipeline = 1, .encoder_tensor = 1});
  EXPECT_EQ(groups["tp"], (RankGroups{{0}, {1, 2}, {3, 4}}));
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 1, 3}, {0, 2, 4}}));
  EXPECT_EQ(groups["mp"], (RankGroups{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(groups["embd"], (RankGroups{{0, 1, 3}, {0, 2, 4}}));
  EXPECT_EQ(groups["pos_embd"], (RankGroups{{0, 1}, {0, 2}}));
}

TEST(EncoderGrids, WithDataParallelism) {
  auto groups = groups_of(
      {.world = 6, .tensor = 2, .pipeline = 1, .encoder_pipeline = 1, .encoder_tensor = 1});
  EXPECT_EQ(groups["tp"], (RankGroups{{0}, {1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(groups["dp"], (RankGroups{{0, 1}, {2, 4}, {3, 5}}));
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 2}, {1, 3}, {0, 4}, {1, 5}}));
  EXPECT_EQ(groups["mp"], (RankGroups{{0, 2, 3}, {1, 4, 5}}));
}

TEST(EncoderGrids, WithEqualTensorRanks) {
  const ParallelSizes sizes{
      .world = 12, .tensor = 2, .pipeline = 2, .encoder_pipeline = 1, .encoder_tensor = 2};
  auto groups = groups_of(sizes);
  EXPECT_EQ(groups["tp"], (RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(groups["dp"], (RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}}));
  EXPECT_EQ(groups["pp"], (RankGroups{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}));
  EXPECT_EQ(groups["mp"], (RankGroups{{0, 1, 4, 5, 8, 9}, {2, 3, 6, 7, 10, 11}}));
  // The same as one pipeline with a split, where that is the last axis.
  ParallelSizes not_given = sizes;
  not_given.encoder_tensor = 0;
  EXPECT_EQ(groups, groups_of(not_given));
  EXPECT_EQ(groups, groups_of({.world = 12, .tensor = 2, .pipeline = 3, .split_rank = 1}));
}

// The world is dp x cp x (etp x epp + tp x pp), and every rank has one place.
TEST(EncoderGrids, EveryRankHasAPlace) {
  int grids_seen = 0;
  for (const std::int64_t tensor : {1, 2, 3, 4}) {
    for (const std::int64_t pipeline : {1, 2, 3}) {
      for (const std::int64_t context : {1, 2}) {
        for (const std::int64_t encoder_pipeline : {1, 2}) {
          for (std::int64_t encoder_tensor = 1; encoder_tensor <= tensor; ++encoder_tensor) {
            for (const std::int64_t data : {1, 2, 3}) {
              const ParallelSizes sizes{
                  .world = data * context * (encoder_tensor * encoder_pipeline + tensor * pipeline),
                  .tensor = tensor,
                  .pipeline = pipeline,
                  .context = context,
                  .encoder_pipeline = encoder_pipeline,
                  .encoder_tensor = encoder_tensor};
              const ParallelGrids grids = parallel_grids(sizes);
              ++grids_seen;
              ASSERT_EQ(grids.world_size(), sizes.world);
              ASSERT_EQ(grids.dense.sizes().data, data);
              std::vector<int> stages(static_cast<std::size_t>(encoder_pipeline + pipeline));
              for (int rank = 0; rank < grids.world_size(); ++rank) {
                ++stages.at(static_cast<std::size_t>(grids.coordinates(rank).pipeline));
              }
              for (std::size_t stage = 0; stage < stages.size(); ++stage) {
                const bool is_encoder = static_cast<int>(stage) < encoder_pipeline;
                ASSERT_EQ(stages[stage], data * context * (is_encoder ? encoder_tensor : tensor));
              }
              // Every decoder rank of the first stage is fed once, by a rank of its replica.
              std::vector<int> fed(static_cast<std::size_t>(grids.world_size()));
              for (const EncoderOutput& output : encoder_outputs(grids)) {
                const GridCoordinates from = grids.coordinates(output.from);
                ASSERT_EQ(from.pipeline, encoder_pipeline - 1);
                ASSERT_EQ(output.gradient_from, output.to.front());
                for (const int rank : output.to) {
                  const GridCoordinates to = grids.coordinates(rank);
                  ASSERT_EQ(to.pipeline, encoder_pipeline);
                  ASSERT_EQ(to.data, from.data);
                  ASSERT_EQ(to.context, from.context);
                  ++fed[static_cast<std::size_t>(rank)];
                }
              }
              for (int rank = 0; rank < grids.world_size(); ++rank) {
                const bool reads = grids.coordinates(rank).pipeline == encoder_pipeline;
                ASSERT_EQ(fed[static_cast<std::size_t>(rank)], reads ? 1 : 0);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(grids_seen, 360);
}

TEST(EncoderGrids, TheEncodersOutputStaysInItsReplica) {
  const auto outputs = encoder_outputs(parallel_grids(
      {.world = 6, .tensor = 2, .pipeline = 1, .encoder_pipeline = 1, .encoder_tensor = 1}));
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].to, (std::vector<int>{2, 3}));
  EXPECT_EQ(outputs[0].gradient_from, 2);
  EXPECT_EQ(outputs[1].to, (std::vector<int>{4, 5}));
  EXPECT_EQ(outputs[1].gradient_from, 4);
  // Two encoder ranks for four of the decoder: neighbours share one.
  const auto halves = encoder_outputs(parallel_grids(
      {.world = 6, .tensor = 4, .pipeline = 1, .encoder_pipeline = 1, .encoder_tensor = 2}));
  ASSERT_EQ(halves.size(), 2U);
  EXPECT_EQ(halves[0].to, (std::vector<int>{2, 3}));
  EXPECT_EQ(halves[1].to, (std::vector<int>{4, 5}));
  EXPECT_TRUE(
      encoder_outputs(parallel_grids({.world = 2, .pipeline = 2, .split_rank = 1})).empty());
}

TEST(EncoderGrids, RefusesWhatDoesNotFit) {
  EXPECT_THAT(message_of({.world = 4, .pipeline = 4, .split_rank = 4}),
              HasSubstr("--pipeline-model-parallel-split-rank 4: must be below"));
  EXPECT_THAT(message_of({.world = 4, .pipeline = 4, .split_rank = -1}),
              HasSubstr("--pipeline-model-parallel-split-rank -1: must be at least 0"));
  EXPECT_THAT(message_of({.world = 4, .tensor = 2, .encoder_pipeline = 1, .encoder_tensor = 4}),
              HasSubstr("must be at most --tensor-model-parallel-size 2"));
  EXPECT_THAT(message_of({.world = 2, .tensor = 2, .encoder_tensor = 1}),
              HasSubstr("shares the decoder's"));
  EXPECT_EQ(message_of({.world = 2, .tensor = 2, .encoder_tensor = 2}), "no error");
  EXPECT_THAT(message_of({.world = 4, .pipeline = 3, .split_rank = 1, .encoder_pipeline = 1}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(message_of({.world = 4, .pipeline = 3, .expert = 2, .encoder_pipeline = 1}),
              HasSubstr("an encoder has none"));
  EXPECT_EQ(message_of({.world = 7, .tensor = 2, .pipeline = 2, .encoder_pipeline = 1}),
            "--world-size 7 is not a multiple of (--encoder-tensor-model-parallel-size 2 x "
            "--encoder-pipeline-model-parallel-size 1 + --tensor-model-parallel-size 2 x "
            "--pipeline-model-parallel-size 2) x --context-parallel-size 1");
  EXPECT_NE(
      message_of({.world = 6, .tensor = 2, .pipeline = 2, .context = 2, .encoder_pipeline = 1}),
      "no error");
  EXPECT_THAT(message_of({.world = 6, .encoder_pipeline = std::int64_t{1} << 60}),
              HasSubstr("is above --world-size 6"));
}

}  // namespace
}  // namespace phalanx
