#include "phalanx/data/numpy_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

using ::testing::ElementsAre;

// Known outputs of NumPy.
TEST(NumpyRandom, RawDraws) {
  NumpyRandom random(1234);
  EXPECT_EQ(random.next_u32(), 822569775U);
  EXPECT_EQ(random.next_u32(), 2137449171U);
  EXPECT_EQ(random.next_u32(), 2671936806U);
  EXPECT_EQ(random.next_u32(), 3512589365U);
}

TEST(NumpyRandom, RandomSample) {
  NumpyRandom random(1234);
  EXPECT_EQ(random.random_sample(), 0.1915194503788923);
  EXPECT_EQ(random.random_sample(), 0.6221087710398319);
  EXPECT_EQ(random.random_sample(), 0.4377277390071145);
}

template <typename T>
std::vector<T> permutation(std::uint32_t seed, std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  NumpyRandom(seed).shuffle(std::span(values));
  return values;
}

TEST(NumpyRandom, ShuffleOfEveryWidth) {
  const auto expected = ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6);
  EXPECT_THAT(permutation<std::int32_t>(42, 10), expected);
  EXPECT_THAT(permutation<std::uint32_t>(42, 10), expected);
  EXPECT_THAT(permutation<std::int64_t>(42, 10), expected);
  EXPECT_THAT(permutation<std::int32_t>(42, 1), ElementsAre(0));
  EXPECT_THAT(permutation<std::int32_t>(42, 0), ElementsAre());
}

// The shuffle draws ahead; it must end as the plain one does, whatever the size.
TEST(NumpyRandom, ShuffleAheadIsThePlainShuffle) {
  for (std::size_t count = 2; count < 200; ++count) {
    std::vector<std::int32_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    NumpyRandom random(9);
    for (std::size_t i = count - 1; i > 0; --i)
      std::swap(expected[i], expected[random.interval(i)]);
    EXPECT_EQ(permutation<std::int32_t>(9, count), expected) << count;
  }
}

TEST(NumpyRandom, ALongShuffleIsPolled) {
  constexpr std::size_t kCount = 5 << 20;
  std::vector<std::int32_t> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  int polls = 0;
  NumpyRandom(9).shuffle(std::span(values), [&] { ++polls; });
  EXPECT_GE(polls, 4);
  EXPECT_LE(polls, 5);
  EXPECT_EQ(values, permutation<std::int32_t>(9, kCount));
  const auto fail = [] { throw 1; };
  EXPECT_THROW(NumpyRandom(9).shuffle(std::span(values), fail), int);
}

TEST(NumpyRandom, Randint) {
  NumpyRandom random(42);
  std::vector<std::int64_t> draws;
  for (int i = 0; i < 5; ++i) draws.push_back(random.randint(0, 100));
  EXPECT_THAT(draws, ElementsAre(51, 92, 14, 71, 60));
  NumpyRandom shifted(42);
  EXPECT_EQ(shifted.randint(-50, 50), 1);
}

TEST(NumpyRandom, DrawsOfMasking) {
  NumpyRandom order(1234);
  std::vector<std::int64_t> values(10);
  std::iota(values.begin(), values.end(), 0);
  order.shuffle(std::span(values));
  EXPECT_THAT(values, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  EXPECT_EQ(order.random_sample(), 0.1506369656060953);

  const auto draws = [](std::size_t count, const auto& draw) {
    NumpyRandom random(1234);
    std::vector<std::int64_t> drawn(count);
    for (auto& value : drawn) value = static_cast<std::int64_t>(draw(random));
    return drawn;
  };
  // choice([1, 2, 3], p=[6/11, 3/11, 2/11])
  const std::vector<double> shares{6.0 / 11, 9.0 / 11, 1.0};
  EXPECT_THAT(draws(20, [&](auto& random) { return random.choice(shares) + 1; }),
              ElementsAre(1, 2, 1, 2, 2, 1, 1, 2, 3, 3, 1, 1, 2, 2, 1, 2, 1, 1, 2, 3));
  EXPECT_THAT(draws(20, [](auto& random) { return random.geometric(0.2); }),
              ElementsAre(1, 5, 3, 7, 7, 2, 2, 8, 15, 10, 2, 4, 6, 6, 3, 4, 4, 1, 7, 10));
  EXPECT_THAT(draws(12, [](auto& random) { return random.randint(1, 5); }),
              ElementsAre(4, 4, 3, 2, 1, 1, 1, 2, 4, 2, 4, 2));
  EXPECT_THAT(draws(12, [](auto& random) { return random.randint(0, 40); }),
              ElementsAre(19, 38, 12, 24, 15, 23, 26, 30, 30, 26, 28, 5));
}

// Where tries often succeed NumPy adds up the terms of the distribution.
TEST(NumpyRandom, GeometricOfLikelyTries) {
  NumpyRandom random(1234);
  std::vector<std::int64_t> drawn;
  for (int i = 0; i < 8; ++i) drawn.push_back(random.geometric(0.4));
  EXPECT_THAT(drawn, ElementsAre(1, 2, 2, 4, 3, 1, 1, 4));
  EXPECT_EQ(random.geometric(1.0), 1);
}

TEST(NumpyRandom, AnIntervalOfOneNumberDrawsNothing) {
  NumpyRandom random(1234);
  EXPECT_EQ(random.interval(0), 0U);
  EXPECT_EQ(random.randint(7, 8), 7);
  EXPECT_EQ(random.next_u32(), 822569775U);
}

// The first partners of a shuffle of 2^32 + 5 entries: NumPy's randint(0, 2**32 + 5 - k,
// dtype=int64), which draws alike. The last one fits 32 bits, and takes one draw.
TEST(NumpyRandom, AShuffleAcrossTheWidthOfADraw) {
  NumpyRandom random(1234);
  std::vector<std::uint64_t> partners;
  for (std::uint64_t k = 0; k < 6; ++k) {
    partners.push_back(random.interval((std::uint64_t{1} << 32) + 4 - k));
  }
  EXPECT_THAT(partners, ElementsAre(3512589365U, 2629000564U, 3312965625U, 852631582U, 682106748U,
                                    3762102042U));
}

TEST(NumpyRandom, WideIntervalsTakeTwoDrawsHighFirst) {
  NumpyRandom random(1234);
  EXPECT_EQ(random.interval(std::numeric_limits<std::uint64_t>::max()),
            822569775ULL << 32 | 2137449171ULL);
}

}  // namespace
}  // namespace phalanx
