#include "phalanx/train/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Probabilities 0.5, 0.3, 0.15, 0.05 of ids 2, 0, 3, 1.
const std::vector<float> kLogits = {std::log(0.3F), std::log(0.05F), std::log(0.5F),
                                    std::log(0.15F)};

std::array<int, 4> counts(const SamplingOptions& options, int draws) {
  std::array<int, 4> seen{};
  for (int i = 0; i < draws; ++i) {
    ++seen[static_cast<std::size_t>(sample_token(kLogits, options, static_cast<std::uint64_t>(i)))];
  }
  return seen;
}

TEST(Sampling, FollowsTheDistribution) {
  const auto seen = counts({}, 40000);
  EXPECT_NEAR(seen[2] / 40000.0, 0.5, 0.01);
  EXPECT_NEAR(seen[0] / 40000.0, 0.3, 0.01);
  EXPECT_NEAR(seen[3] / 40000.0, 0.15, 0.01);
  EXPECT_NEAR(seen[1] / 40000.0, 0.05, 0.01);
}

TEST(Sampling, GreedyTakesTheLowestOfEqualIds) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0.0}, 0), 2);
  EXPECT_EQ(sample_token(std::vector<float>{1.0F, 3.0F, 3.0F}, {.temperature = 0.0}, 0), 1);
}

TEST(Sampling, TopKAndTopPCutTheTail) {
  const auto two = counts({.top_k = 2}, 4000);
  EXPECT_EQ(two[1] + two[3], 0);
  EXPECT_NEAR(two[2] / 4000.0, 0.625, 0.03);
  const auto nucleus = counts({.top_p = 0.7}, 4000);  // 0.5 + 0.3 is the first sum to reach it
  EXPECT_EQ(nucleus[1] + nucleus[3], 0);
  EXPECT_GT(nucleus[0], 0);
  const auto first = counts({.top_p = 0.4}, 100);
  EXPECT_EQ(first[2], 100);
}

TEST(Sampling, LowTemperatureSharpens) { EXPECT_GT(counts({.temperature = 0.2}, 2000)[2], 1800); }

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  EXPECT_EQ(counts({.seed = 5}, 500), counts({.seed = 5}, 500));
  EXPECT_NE(counts({.seed = 5}, 500), counts({.seed = 6}, 500));
}

TEST(Sampling, RefusesBadOptions) {
  EXPECT_THROW(check({.temperature = -1.0}), ConfigError);
  EXPECT_THROW(check({.top_k = -1}), ConfigError);
  EXPECT_THROW(check({.top_p = 1.5}), ConfigError);
  EXPECT_NO_THROW(check({}));
}

}  // namespace
}  // namespace phalanx
