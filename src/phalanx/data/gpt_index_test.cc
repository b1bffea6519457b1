#include "phalanx/data/gpt_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <set>

#include "phalanx/data/test_files.h"

namespace phalanx {

void PrintTo(const SampleStart& start, std::ostream* out) {
  *out << "(" << start.document << "," << start.offset << ")";
}

namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGoldenLengths;

using Starts = std::vector<SampleStart>;

GptIndex golden(std::int64_t samples) {
  return build_gpt_index(kGoldenLengths, {.sequence_length = 8, .samples = samples, .seed = 1234});
}

// The three golden vectors were made with Megatron's own helper.
TEST(GptIndex, GoldenOneEpoch) {
  const auto index = golden(8);
  EXPECT_EQ(index.epochs, 1);
  EXPECT_THAT(index.documents, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  EXPECT_EQ(index.starts,
            (Starts{{0, 0}, {1, 2}, {1, 10}, {3, 1}, {4, 6}, {5, 7}, {6, 4}, {7, 3}, {8, 7}}));
  EXPECT_THAT(index.shuffle, ElementsAre(7, 5, 6, 0, 4, 3, 2, 1));
}

TEST(GptIndex, GoldenSeparateLastEpoch) {
  const auto index = golden(20);
  EXPECT_EQ(index.epochs, 3);
  EXPECT_THAT(index.documents, ElementsAre(3, 3, 2, 6, 4, 5, 4, 0, 8, 8, 7, 1, 0, 9, 7, 1, 9, 2, 6,
                                           5, 8, 1, 7, 6, 9, 5, 4, 3, 0, 2));
  EXPECT_EQ(index.starts, (Starts{{0, 0},  {1, 3},  {2, 6},  {3, 2},  {4, 2},  {5, 1},  {6, 5},
                                  {7, 4},  {8, 5},  {9, 2},  {9, 10}, {11, 1}, {12, 6}, {14, 2},
                                  {16, 1}, {17, 4}, {18, 0}, {19, 0}, {20, 4}, {21, 1}, {23, 0},
                                  {24, 0}, {25, 3}, {26, 7}, {28, 1}, {29, 2}, {29, 10}}));
  EXPECT_THAT(index.shuffle, ElementsAre(12, 6, 13, 16, 5, 8, 1, 4, 10, 2, 3, 14, 15, 9, 0, 11, 7,
                                         23, 18, 17, 22, 25, 19, 21, 24, 20));
}

TEST(GptIndex, GoldenJointLastEpoch) {
  const auto index = golden(24);
  EXPECT_EQ(index.epochs, 3);
  EXPECT_THAT(index.documents, ElementsAre(7, 0, 4, 1, 8, 8, 3, 3, 4, 3, 2, 4, 0, 2, 7, 6, 8, 5, 6,
                                           5, 1, 9, 7, 9, 0, 2, 1, 6, 9, 5));
  EXPECT_THAT(index.shuffle, ElementsAre(8, 25, 18, 3, 13, 6, 5, 9, 0, 4, 16, 22, 15, 20, 10, 23, 7,
                                         14, 17, 21, 24, 11, 1, 12, 19, 2));
}

TEST(GptIndex, WithoutARequestItIsOneEpoch) {
  const auto index = build_gpt_index(kGoldenLengths, {.sequence_length = 8});
  EXPECT_EQ(index.epochs, 1);
  EXPECT_EQ(index.samples(), 8);  // (70 - 1) / 8
  EXPECT_EQ(index.shuffle, golden(8).shuffle);
}

TEST(GptIndex, PartialTail) {
  const auto index =
      build_gpt_index(kGoldenLengths, {.sequence_length = 8, .keep_partial_tail = true});
  EXPECT_EQ(index.samples(), 9);
  EXPECT_EQ(index.starts.back(), (SampleStart{9, 4}));  // the last token of the last document
  // 69 = 3 * 23: no tail to keep.
  EXPECT_EQ(
      build_gpt_index(kGoldenLengths, {.sequence_length = 23, .keep_partial_tail = true}).samples(),
      3);
}

// Megatron's count is a division in single precision: 2^24 + 1 tokens after the first round to
// 2^24.
TEST(GptIndex, PartialTailCountsInSinglePrecision) {
  const std::vector<std::int32_t> lengths{(1 << 24) + 2};
  EXPECT_EQ(
      build_gpt_index(lengths, {.sequence_length = 1 << 12, .keep_partial_tail = true}).samples(),
      1 << 12);
}

TEST(GptIndex, SequentialOrder) {
  const auto index = build_gpt_index(
      kGoldenLengths, {.sequence_length = 8, .samples = 100, .order = DataOrder::kSequential});
  EXPECT_EQ(index.epochs, 1);
  EXPECT_THAT(index.documents, IsEmpty());
  EXPECT_THAT(index.shuffle, IsEmpty());
  EXPECT_EQ(index.starts,
            (Starts{{0, 0}, {1, 1}, {2, 6}, {3, 2}, {4, 5}, {6, 0}, {7, 0}, {8, 2}, {8, 10}}));
}

// Documents of no, one and many tokens; requests from nothing to many epochs.
TEST(GptIndex, EveryRequestIsServed) {
  const std::vector<std::int32_t> lengths{0, 1, 40, 0, 2, 1, 7, 0};
  for (const std::int64_t s : {1, 2, 7, 50, 51, 200}) {
    for (std::int64_t samples = 0; samples < 60; ++samples) {
      const auto index = build_gpt_index(lengths, {.sequence_length = s, .samples = samples});
      EXPECT_GE(index.samples(), samples);
      EXPECT_EQ(index.samples(), (index.epochs * 51 - 1) / s);
      EXPECT_EQ(std::set(index.shuffle.begin(), index.shuffle.end()).size(), index.shuffle.size());
      if (index.epochs > 1) {
        EXPECT_LT((index.epochs - 1) * 51, samples * s + 1);
      }
    }
  }
}

TEST(GptIndex, BuildingIsPolled) {
  int polls = 0;
  GptIndexOptions options{.sequence_length = 8, .samples = 50000, .poll = [&] { ++polls; }};
  const auto polled = build_gpt_index(kGoldenLengths, options);
  EXPECT_GE(polls, 4);
  EXPECT_EQ(polled.shuffle, golden(50000).shuffle);
  options.poll = [] { throw 1; };
  EXPECT_THROW(build_gpt_index(kGoldenLengths, options), int);
}

TEST(GptIndex, TooLittleData) {
  const auto message = [](std::vector<std::int32_t> lengths, const GptIndexOptions& options) {
    return error_of(ErrorCode::kConfiguration, [&] { build_gpt_index(lengths, options); });
  };
  EXPECT_THAT(message({}, {.sequence_length = 8, .samples = 1}), HasSubstr("0 tokens are too few"));
  EXPECT_THAT(message({0, 1}, {.sequence_length = 8, .samples = 1}), HasSubstr("1 tokens"));
  EXPECT_THAT(message({8}, {.sequence_length = 8}), HasSubstr("9 are needed"));
  EXPECT_THAT(message({8}, {.sequence_length = 8, .samples = 1, .order = DataOrder::kSequential}),
              HasSubstr("9 are needed"));
  EXPECT_THAT(message({8}, {.sequence_length = 0}), HasSubstr("--seq-length 0"));
}

TEST(GptIndex, TooLargeARequest) {
  const auto message = [](std::int64_t s, std::int64_t samples) {
    return error_of(ErrorCode::kConfiguration, [&] {
      build_gpt_index(kGoldenLengths, {.sequence_length = s, .samples = samples});
    });
  };
  EXPECT_THAT(message(8, std::int64_t{1} << 33), HasSubstr("samples"));
  EXPECT_THAT(message(8, std::numeric_limits<std::int64_t>::max()), HasSubstr("samples"));
  EXPECT_THAT(message(8, -1), HasSubstr("-1 samples"));
  EXPECT_THAT(message(1 << 30, std::int64_t{1} << 31), HasSubstr("more than can be indexed"));
}

}  // namespace
}  // namespace phalanx
