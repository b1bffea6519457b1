#include "phalanx/inference/sampling.h"

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

TEST(Sampling, MinPIsAShareOfTheLargestProbability) {
  const auto seen = counts({.min_p = 0.31}, 4000);  // of 0.5: 0.155
  EXPECT_EQ(seen[1] + seen[3], 0);
  EXPECT_GT(seen[0], 0);
  EXPECT_GT(counts({.min_p = 0.29}, 4000)[3], 0);
  EXPECT_EQ(counts({.min_p = 1.0}, 100)[2], 100);
  // Of probabilities behind the temperature: (0.3 / 0.5)^2.
  EXPECT_EQ(counts({.temperature = 0.5, .min_p = 0.37}, 500)[2], 500);
}

TEST(Sampling, ThePenaltyIsOnWhatWasThereOnce) {
  std::vector<float> scores = {2.0F, -1.0F, 3.0F, 0.0F};
  const std::vector<std::int32_t> seen = {0, 1, 0, 3};
  penalise_repetition(scores, 2.0, seen);
  EXPECT_EQ(scores, (std::vector<float>{1.0F, -2.0F, 3.0F, 0.0F}));
  const std::vector<float> close = {1.0F, 1.5F};
  const std::vector<std::int32_t> second = {1};
  EXPECT_EQ(sample_token(close, {.temperature = 0.0}, 0, second), 1);
  EXPECT_EQ(sample_token(close, {.temperature = 0.0, .repetition_penalty = 2.0}, 0, second), 0);
}

// The order is by score, then by id, however many ids are asked for.
TEST(Sampling, TheMostLikelyAreInOrder) {
  std::vector<float> scores;
  std::uint32_t state = 3;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525U + 1013904223U;
    scores.push_back(static_cast<float>(static_cast<std::int32_t>(state) >> 20) / 7.0F);
  }
  scores[5] = -0.0F;
  scores[4] = 0.0F;
  const auto all = most_likely(scores, 5000);
  ASSERT_EQ(all.size(), scores.size());
  for (std::size_t i = 1; i < all.size(); ++i) {
    const float before = scores[static_cast<std::size_t>(all[i - 1])];
    const float here = scores[static_cast<std::size_t>(all[i])];
    ASSERT_TRUE(before > here || (before == here && all[i - 1] < all[i])) << i;
  }
  for (const std::size_t count : {1U, 17U, 2999U}) {
    EXPECT_EQ(most_likely(scores, static_cast<std::int64_t>(count)),
              (std::vector<std::int32_t>{all.begin(), all.begin() + count}));
  }
  scores[7] = std::nanf("");
  EXPECT_THROW(most_likely(scores, 3), DataError);
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
  EXPECT_THROW(check({.min_p = -0.1}), ConfigError);
  EXPECT_THROW(check({.repetition_penalty = 0.0}), ConfigError);
  EXPECT_NO_THROW(check({}));
}

}  // namespace
}  // namespace phalanx
