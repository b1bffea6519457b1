// The model that `bench_comm --scaling` fits.

#include "bench/scaling_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx::bench {
namespace {

std::vector<ScalingCell> cells_of(const ScalingModel& model, int cores) {
  std::vector<ScalingCell> cells;
  for (const int ranks : {2, 4, 8, 16, 32, 64}) {
    for (const std::int64_t bytes : {4096, 65536, 1 << 20, 64 << 20}) {
      cells.push_back({.way = "threads",
                       .operation = "all_reduce",
                       .ranks = ranks,
                       .bytes = bytes,
                       .seconds = model.seconds(ranks, bytes, cores),
                       .calls = 1});
    }
  }
  return cells;
}

TEST(ScalingModelTest, IsFoundAgain) {
  constexpr int kCores = 4;
  for (const bool is_logarithmic : {true, false}) {
    for (const bool shares_cores : {true, false}) {
      const ScalingModel model{.is_logarithmic = is_logarithmic,
                               .shares_cores = shares_cores,
                               .a = 3e-6,
                               .b = 5e-6,
                               .c = 2e-10};
      const ScalingModel found = fit_model(cells_of(model, kCores), kCores);
      EXPECT_EQ(found.is_logarithmic, is_logarithmic);
      EXPECT_EQ(found.shares_cores, shares_cores);
      EXPECT_NEAR(found.a, model.a, 1e-10);
      EXPECT_NEAR(found.b, model.b, 1e-10);
      EXPECT_NEAR(found.c, model.c, 1e-14);
      EXPECT_LT(found.worst_error, 1e-6);
    }
  }
  // 4 steps of log2 16; 16 ranks on 4 cores; 15 / 16 of a million bytes.
  const ScalingModel model{.is_logarithmic = true, .shares_cores = true, .a = 1, .b = 2, .c = 1e-6};
  EXPECT_NEAR(model.seconds(16, 1000000, kCores), 1 + 4 * (2 * 4 + 0.9375), 1e-9);
}

TEST(ScalingModelTest, HasNoNegativeTerms) {
  // Faster with more ranks: nothing of the model is.
  std::vector<ScalingCell> cells = cells_of({.a = 1e-3}, 1);
  for (ScalingCell& cell : cells) cell.seconds /= cell.ranks;
  const ScalingModel found = fit_model(cells, 1);
  EXPECT_GT(found.a, 0);
  EXPECT_GE(found.b, 0);
  EXPECT_GE(found.c, 0);
  EXPECT_GT(found.median_error, 0.1);
}

}  // namespace
}  // namespace phalanx::bench
