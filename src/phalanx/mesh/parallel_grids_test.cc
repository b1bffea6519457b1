#include "phalanx/mesh/parallel_grids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string_view> names_of(const std::vector<GroupFamily>& families) {
  std::vector<std::string_view> names;
  for (const auto& family : families) names.push_back(family.name);
  return names;
}

TEST(ParallelGrids, DataParallelismIsWhatIsLeft) {
  const auto grids = parallel_grids({.world = 16, .tensor = 2, .pipeline = 4});
  EXPECT_EQ(grids.dense.sizes(), (GridSizes{.tensor = 2, .data = 2, .pipeline = 4}));
  EXPECT_FALSE(grids.expert);
  const auto families = group_families(grids);
  EXPECT_THAT(names_of(families), ElementsAre("tp", "cp", "dp", "pp", "mp", "tp-dp", "tp-cp",
                                              "dp-cp", "embd", "pos_embd"));
  EXPECT_EQ(families[4].groups,
            (RankGroups{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
  EXPECT_EQ(families[8].groups, (RankGroups{{0, 12}, {1, 13}, {2, 14}, {3, 15}}));
}

// Experts span tensor, context and data ranks: 2 x 2 x 2 dense are 1 x 4 x 2 to the experts.
TEST(ParallelGrids, ExpertsFoldOverTheDenseRanks) {
  const auto grids = parallel_grids(
      {.world = 16, .tensor = 2, .pipeline = 2, .context = 2, .expert = 4, .expert_tensor = 1});
  EXPECT_EQ(grids.dense.sizes(), (GridSizes{.tensor = 2, .context = 2, .data = 2, .pipeline = 2}));
  ASSERT_TRUE(grids.expert);
  EXPECT_EQ(grids.expert->sizes(), (GridSizes{.expert = 4, .data = 2, .pipeline = 2}));
  const auto families = group_families(grids);
  EXPECT_THAT(names_of(families),
              ElementsAre("tp", "cp", "dp", "pp", "mp", "tp-dp", "tp-cp", "dp-cp", "embd",
                          "pos_embd", "ep", "etp", "tp-ep", "tp-ep-pp", "edp"));
  const RankGroups fours = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
  EXPECT_EQ(families[10].groups, fours);
  EXPECT_EQ(families[11].groups.size(), 16U);
  EXPECT_EQ(families[12].groups, fours);
  EXPECT_EQ(families[13].groups,
            (RankGroups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
  EXPECT_EQ(families[14].groups,
            (RankGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
}

TEST(ParallelGrids, ExpertTensorSizeFollowsTheTensorSize) {
  const auto grids = parallel_grids({.world = 16, .tensor = 2, .pipeline = 2, .expert = 4});
  ASSERT_TRUE(grids.expert);
  EXPECT_EQ(grids.expert->sizes(), (GridSizes{.tensor = 2, .expert = 4, .pipeline = 2}));
  const auto cut = parallel_grids({.world = 4, .tensor = 2, .expert_tensor = 1});
  ASSERT_TRUE(cut.expert);
  EXPECT_EQ(cut.expert->sizes(), (GridSizes{.data = 4}));
}

std::string message_of(const ParallelSizes& sizes, std::string_view order = kDefaultOrder) {
  return error_of<ConfigError>([&] { parallel_grids(sizes, order); });
}

TEST(ParallelGrids, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of({.world = 16, .tensor = 3, .pipeline = 2}),
            "--world-size 16 is not a multiple of --tensor-model-parallel-size 3 x "
            "--pipeline-model-parallel-size 2 x --context-parallel-size 1");
  EXPECT_NE(message_of({.world = 8, .tensor = 4, .pipeline = 4}), "no error");
  EXPECT_EQ(message_of({.world = 16, .tensor = 2, .expert = 3}),
            "--world-size 16 is not a multiple of --expert-tensor-parallel-size 2 x "
            "--expert-model-parallel-size 3 x --pipeline-model-parallel-size 1");
  EXPECT_THAT(message_of({.world = 0}), HasSubstr("--world-size 0: must be at least 1"));
  EXPECT_THAT(message_of({.pipeline = -1}), HasSubstr("--pipeline-model-parallel-size -1"));
  EXPECT_THAT(message_of({.expert_tensor = -1}), HasSubstr("--expert-tensor-parallel-size -1"));
  EXPECT_THAT(message_of({.world = std::int64_t{1} << 40}), HasSubstr("at most 1048576 ranks"));
  EXPECT_NE(message_of({.world = 16, .tensor = std::int64_t{1} << 40}), "no error");
  EXPECT_THAT(message_of({.world = 4, .pipeline = 2}, "tp-dp"), HasSubstr("pp is missing"));
}

// With pipelines inside data parallelism, the stage of a rank depends on the axes before pp.
TEST(ParallelGrids, PipelinesOfBothGridsCoincide) {
  const ParallelSizes sizes{
      .world = 16, .tensor = 2, .pipeline = 2, .expert = 4, .expert_tensor = 1};
  EXPECT_THAT(message_of(sizes, "tp-cp-ep-pp-dp"),
              AllOf(HasSubstr("rank order tp-cp-ep-pp-dp"), HasSubstr("(tp 2 cp 1 dp 4)"),
                    HasSubstr("(tp 1 ep 4 dp 2)"), HasSubstr("ends with pp")));
  EXPECT_EQ(message_of(sizes), "no error");
  // As many ranks before the pipeline in both.
  EXPECT_EQ(message_of({.world = 16, .tensor = 4, .pipeline = 2, .expert = 4, .expert_tensor = 1},
                       "tp-cp-ep-pp-dp"),
            "no error");
}

}  // namespace
}  // namespace phalanx
