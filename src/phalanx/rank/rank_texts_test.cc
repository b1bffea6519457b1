#include "phalanx/rank/rank_texts.h"

#include <gtest/gtest.h>

#include "phalanx/mesh/parallel_grids.h"

namespace phalanx {
namespace {

TEST(RankText, NamesThePlaceInBothGrids) {
  const GridPlace dense{.dense = {.tensor = 1, .data = 2}, .expert = {}};
  EXPECT_EQ(rank_text(0, 1, {}, ""), "rank 0");
  EXPECT_EQ(rank_text(5, 8, dense, ""), "rank 5 (tp 1, pp 0, dp 2)");
  EXPECT_EQ(rank_text(5, 8, dense, "node7"), "rank 5 (tp 1, pp 0, dp 2) on host node7");

  const ParallelGrids grids =
      parallel_grids({.world = 8, .tensor = 2, .expert = 2, .expert_tensor = 2});
  const auto text = [&](int rank) {
    return rank_text(
        rank, 8, {.dense = grids.coordinates(rank), .expert = grids.expert_coordinates(rank)}, "");
  };
  EXPECT_EQ(text(5), "rank 5 (tp 1, pp 0, dp 2, ep 0, etp 1, edp 1)");
  EXPECT_EQ(text(6), "rank 6 (tp 0, pp 0, dp 3, ep 1, etp 0, edp 1)");
}

}  // namespace
}  // namespace phalanx
