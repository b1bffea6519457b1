#include "phalanx/data/blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "phalanx/data/numpy_random.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> datasets_of(const BlendIndex& index) {
  std::vector<std::int64_t> datasets;
  for (std::int64_t i = 0; i < index.size(); ++i) datasets.push_back(index.at(i).dataset);
  return datasets;
}

std::vector<std::int64_t> plenty(std::size_t datasets) {
  return std::vector<std::int64_t>(datasets, std::int64_t{1} << 40);
}

// Between 1 and `most` weights, some of them tiny.
std::vector<double> random_weights(std::mt19937& random, int most) {
  std::vector<double> weights(1 + random() % static_cast<unsigned>(most));
  for (double& weight : weights) {
    weight = random() % 4 == 0 ? 1e-4 : 1e-2 * static_cast<double>(1 + random() % 1000);
  }
  return normalized_weights(weights);
}

// Compiled from Megatron's own helper.
TEST(Blend, FollowsMegatronsRule) {
  EXPECT_THAT(datasets_of(blend_by_weights(std::vector{0.5, 0.3, 0.2}, 20, plenty(3))),
              ElementsAre(0, 1, 2, 0, 1, 0, 2, 0, 1, 0, 0, 1, 2, 0, 1, 0, 2, 0, 1, 0));
  EXPECT_THAT(datasets_of(blend_exhaustively(std::vector<std::int64_t>{5, 3, 2})),
              ElementsAre(0, 1, 2, 0, 1, 0, 2, 0, 1, 0));
}

// The rule as it reads, one data set after the other.
TEST(Blend, IsTheRuleForManyDatasets) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const auto weights = random_weights(random, 60);
    const BlendIndex index = blend_by_weights(weights, 2500, plenty(weights.size()));
    ASSERT_EQ(index.size(), 2500);
    std::vector<std::int64_t> given(weights.size());
    for (std::int64_t i = 0; i < index.size(); ++i) {
      std::size_t chosen = 0;
      const auto behind = [&](std::size_t d) {
        return weights[d] * std::max(static_cast<double>(i), 1.0) - static_cast<double>(given[d]);
      };
      for (std::size_t d = 1; d < weights.size(); ++d) {
        if (behind(d) > behind(chosen)) chosen = d;
      }
      ASSERT_EQ(index.at(i), (BlendedSample{static_cast<std::int64_t>(chosen), given[chosen]}))
          << i;
      ++given[chosen];
    }
    EXPECT_EQ(index.counts(), given);
  }
}

// No data set is ever a whole sample ahead of its share, and of two none is a whole one behind.
TEST(Blend, KeepsToTheShares) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const auto weights = random_weights(random, round % 2 == 0 ? 2 : 30);
    const BlendIndex index = blend_by_weights(weights, 3000, plenty(weights.size()));
    std::vector<std::int64_t> given(weights.size());
    for (std::int64_t i = 0; i < index.size(); ++i) {
      ++given[static_cast<std::size_t>(index.at(i).dataset)];
      for (std::size_t d = 0; d < weights.size(); ++d) {
        const double ahead =
            static_cast<double>(given[d]) - weights[d] * static_cast<double>(i + 1);
        ASSERT_LE(ahead, 1.0 + 1e-9) << i;
        ASSERT_GE(ahead, weights.size() == 2 ? -1.0 - 1e-9 : -3.0) << i;
      }
    }
  }
}

TEST(Blend, ExhaustiveTakesEverySampleOnce) {
  std::mt19937 random(13);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::int64_t> sizes(1 + random() % 12);
    for (auto& size : sizes) size = random() % 300;
    sizes[0] += 1;
    const BlendIndex index = blend_exhaustively(sizes);
    EXPECT_EQ(index.size(), std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    EXPECT_EQ(index.counts(), sizes);
    std::vector<std::int64_t> next(sizes.size());
    for (std::int64_t i = 0; i < index.size(); ++i) {
      const BlendedSample at = index.at(i);
      ASSERT_EQ(at.sample, next[static_cast<std::size_t>(at.dataset)]++) << i;
    }
  }
}

// What is requested of each data set suffices for every sample that is asked for.
TEST(Blend, RequestsSuffice) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    const auto weights = random_weights(random, 40);
    const std::int64_t target = 1 + random() % 2000;
    std::vector<std::int64_t> available;
    for (const double weight : weights) available.push_back(blended_request(target, weight));
    const std::int64_t size = blended_size(target, weights);
    EXPECT_GE(size, target);
    EXPECT_GE(blend_by_weights(weights, size, available).size(), target);
  }
  EXPECT_EQ(blended_request(1000, 0.3), 302);  // ceil(300 * 1.005)
  EXPECT_EQ(blended_size(1000, std::vector{0.3333, 0.6667}), 334 + 667);
}

TEST(Blend, EndsWhereADatasetRunsOut) {
  const std::vector<std::int64_t> available{100, 3};
  EXPECT_EQ(blend_by_weights(std::vector{0.5, 0.5}, 100, available).size(), 7);
  EXPECT_EQ(blend_by_weights(std::vector{0.5, 0.5}, std::int64_t{1} << 60, available).size(), 7);
}

// numpy.random.RandomState(5).random_sample(300).sum() and others.
TEST(Blend, WeightsAreSummedAsNumpyDoes) {
  NumpyRandom random(5);
  std::vector<double> weights(300);
  for (double& weight : weights) weight = random.random_sample();
  const auto sum = [&](std::size_t count) {
    const auto normalized = normalized_weights(std::span(weights).first(count));
    return weights[0] / normalized[0];
  };
  const auto check = [&](std::size_t count, double expected) {
    const auto normalized = normalized_weights(std::span(weights).first(count));
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(normalized[i], weights[i] / expected);
    EXPECT_NEAR(sum(count), expected, 1e-12);
  };
  check(300, 149.6486462429126);
  check(20, 9.57882298648235);
  check(7, 4.084118448722254);
  check(131, 66.56366492788722);
}

TEST(Blend, TooManyDatasetsAreRefused) {
  const std::vector<double> weights(32767, 1.0 / 32767);
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] { blend_by_weights(weights, 1, plenty(weights.size())); }),
              HasSubstr("32767 datasets"));
}

}  // namespace
}  // namespace phalanx
