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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGoldenLengths;

using Starts = std::vector<SampleStart>;

std::vector<std::int64_t> list(const IndexArray& array) {
  std::vector<std::int64_t> entries;
  for (std::int64_t i = 0; i < array.size(); ++i) entries.push_back(array[i]);
  return entries;
}

Starts starts(const GptIndex& index) {
  Starts all;
  for (std::int64_t m = 0; m <= index.samples(); ++m) all.push_back(index.start(m));
  return all;
}

GptIndex golden(std::int64_t samples) {
  return build_gpt_index(kGoldenLengths, {.sequence_length = 8, .samples = samples, .seed = 1234});
}

// The three golden vectors were made with Megatron's own helper.
TEST(GptIndex, GoldenOneEpoch) {
  const auto index = golden(8);
  EXPECT_EQ(index.epochs, 1);
  EXPECT_THAT(list(index.documents), ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  EXPECT_EQ(starts(index),
            (Starts{{0, 0}, {1, 2}, {1, 10}, {3, 1}, {4, 6}, {5, 7}, {6, 4}, {7, 3}, {8, 7}}));
  EXPECT_THAT(list(index.shuffle), ElementsAre(7, 5, 6, 0, 4, 3, 2, 1));
}

TEST(GptIndex, GoldenSeparateLastEpoch) {
  const auto index = golden(20);
  EXPECT_EQ(index.epochs, 3);
  EXPECT_THAT(list(index.documents), ElementsAre(3, 3, 2, 6, 4, 5, 4, 0, 8, 8, 7, 1, 0, 9, 7, 1, 9,
                                                 2, 6, 5, 8, 1, 7, 6, 9, 5, 4, 3, 0, 2));
  EXPECT_EQ(starts(index), (Starts{{0, 0},  {1, 3},  {2, 6},  {3, 2},  {4, 2},  {5, 1},  {6, 5},
                                   {7, 4},  {8, 5},  {9, 2},  {9, 10}, {11, 1}, {12, 6}, {14, 2},
                                   {16, 1}, {17, 4}, {18, 0}, {19, 0}, {20, 4}, {21, 1}, {23, 0},
                                   {24, 0}, {25, 3}, {26, 7}, {28, 1}, {29, 2}, {29, 10}}));
  EXPECT_THAT(list(index.shuffle), ElementsAre(12, 6, 13, 16, 5, 8, 1, 4, 10, 2, 3, 14, 15, 9, 0,
                                               11, 7, 23, 18, 17, 22, 25, 19, 21, 24, 20));
}

TEST(GptIndex, GoldenJointLastEpoch) {
  const auto index = golden(24);
  EXPECT_EQ(index.epochs, 3);
  EXPECT_THAT(list(index.documents), ElementsAre(7, 0, 4, 1, 8, 8, 3, 3, 4, 3, 2, 4, 0, 2, 7, 6, 8,
                                                 5, 6, 5, 1, 9, 7, 9, 0, 2, 1, 6, 9, 5));
  EXPECT_THAT(list(index.shuffle), ElementsAre(8, 25, 18, 3, 13, 6, 5, 9, 0, 4, 16, 22, 15, 20, 10,
                                               23, 7, 14, 17, 21, 24, 11, 1, 12, 19, 2));
}

TEST(GptIndex, WithoutARequestItIsOneEpoch) {
  const auto index = build_gpt_index(kGoldenLengths, {.sequence_length = 8});
  EXPECT_EQ(index.epochs, 1);
  EXPECT_EQ(index.samples(), 8);  // (70 - 1) / 8
  EXPECT_EQ(list(index.shuffle), list(golden(8).shuffle));
}

TEST(GptIndex, PartialTail) {
  const auto index =
      build_gpt_index(kGoldenLengths, {.sequence_length = 8, .keep_partial_tail = true});
  EXPECT_EQ(index.samples(), 9);
  EXPECT_EQ(starts(index).back(), (SampleStart{9, 4}));  // the last token of the last document
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
  EXPECT_THAT(list(index.documents), IsEmpty());
  EXPECT_THAT(list(index.shuffle), IsEmpty());
  EXPECT_EQ(starts(index),
            (Starts{{0, 0}, {1, 1}, {2, 6}, {3, 2}, {4, 5}, {6, 0}, {7, 0}, {8, 2}, {8, 10}}));
}

// What the widths change is where an entry lies, and nothing else.
TEST(GptIndex, WideEntriesSayTheSame) {
  const std::vector<std::int32_t> lengths{0, 1, 40, 0, 2, 1, 7, 0};
  for (const DataOrder order : {DataOrder::kMegatron, DataOrder::kSequential}) {
    for (const std::int64_t samples : {1, 9, 40}) {
      for (const bool tail : {false, true}) {
        GptIndexOptions options{
            .sequence_length = 7, .samples = samples, .keep_partial_tail = tail, .order = order};
        const auto narrow = build_gpt_index(lengths, options);
        options.largest_narrow = 1;
        const auto wide = build_gpt_index(lengths, options);
        const auto plan = plan_gpt_index(8, 51, options);
        EXPECT_EQ(plan.starts.width, 8);
        EXPECT_EQ(plan.documents.width, 8);
        EXPECT_EQ(list(wide.documents), list(narrow.documents));
        EXPECT_EQ(starts(wide), starts(narrow));
        EXPECT_EQ(list(wide.shuffle), list(narrow.shuffle));
      }
    }
  }
}

// An empty document at the end leaves nothing to begin at: the tail ends before it.
TEST(GptIndex, APartialTailMayEndWithAnEmptyDocument) {
  const auto index = build_gpt_index(
      std::vector<std::int32_t>{5, 0},
      {.sequence_length = 3, .keep_partial_tail = true, .order = DataOrder::kSequential});
  EXPECT_EQ(starts(index), (Starts{{0, 0}, {0, 3}, {1, -1}}));
}

constexpr std::int64_t kTwoTo32 = std::int64_t{1} << 32;

// Counts of corpora that no test can hold. Megatron's files change to 64 bits at these counts too.
TEST(GptIndex, PlansBeyond32Bits) {
  const auto plan =
      plan_gpt_index(kTwoTo32 + 1, 50 * kTwoTo32, {.sequence_length = 8, .samples = 6 * kTwoTo32});
  EXPECT_EQ(plan.epochs, 1);
  EXPECT_EQ(plan.samples, (50 * kTwoTo32 - 1) / 8);
  EXPECT_EQ(plan.documents.entries, kTwoTo32 + 1);
  EXPECT_EQ(plan.documents.width, 8);
  EXPECT_EQ(plan.starts.width, 8);
  EXPECT_EQ(plan.shuffle.width, 8);
  EXPECT_EQ(plan.bytes, 8 * (kTwoTo32 + 1) + 16 * (plan.samples + 1) + 8 * plan.samples);

  // The largest that 32 bits hold, and one more.
  const auto width = [](std::int64_t documents, std::int64_t tokens) {
    const auto p = plan_gpt_index(documents, tokens, {.sequence_length = 1});
    return std::vector{p.documents.width, p.starts.width, p.shuffle.width};
  };
  EXPECT_THAT(width(kTwoTo32, kTwoTo32 + 1), ElementsAre(4, 4, 4));
  EXPECT_THAT(width(kTwoTo32 + 1, kTwoTo32 + 1), ElementsAre(8, 8, 4));
  EXPECT_THAT(width(7, kTwoTo32 + 1), ElementsAre(4, 4, 4));
  EXPECT_THAT(width(7, kTwoTo32 + 2), ElementsAre(4, 4, 8));

  // Many visits of few documents, the last epoch on its own.
  const auto epochs = plan_gpt_index(1 << 20, 1 << 21, {.sequence_length = 64, .samples = 1 << 28});
  EXPECT_EQ(epochs.epochs, 8193);
  EXPECT_EQ(epochs.visits, 8193LL << 20);
  EXPECT_TRUE(epochs.separate_last);
  EXPECT_EQ(epochs.before_last, (8192LL * (1 << 21) - 1) / 64);
  EXPECT_EQ(epochs.documents.width, 4);
  EXPECT_EQ(epochs.starts.width, 8);
  EXPECT_EQ(epochs.shuffle.width, 4);
}

// More tokens than 32 bits count, in documents as long as they can be.
TEST(GptIndex, MoreThanTwoTo32Tokens) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> lengths(5, static_cast<std::int32_t>(kLongest));
  constexpr std::int64_t kSequence = (std::int64_t{1} << 24) + 1;
  const auto index = build_gpt_index(lengths, {.sequence_length = kSequence, .samples = 600});
  EXPECT_EQ(index.samples(), (5 * kLongest - 1) / kSequence);
  for (std::int64_t m = 0; m <= index.samples(); ++m) {
    const std::int64_t at = m * kSequence;
    EXPECT_EQ(index.start(m), (SampleStart{at / kLongest, at % kLongest})) << m;
  }
}

// Documents of no, one and many tokens; requests from nothing to many epochs.
TEST(GptIndex, EveryRequestIsServed) {
  const std::vector<std::int32_t> lengths{0, 1, 40, 0, 2, 1, 7, 0};
  for (const std::int64_t s : {1, 2, 7, 50, 51, 200}) {
    for (std::int64_t samples = 0; samples < 60; ++samples) {
      const auto index = build_gpt_index(lengths, {.sequence_length = s, .samples = samples});
      EXPECT_GE(index.samples(), samples);
      EXPECT_EQ(index.samples(), (index.epochs * 51 - 1) / s);
      const auto order = list(index.shuffle);
      EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size());
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
  EXPECT_EQ(list(polled.shuffle), list(golden(50000).shuffle));
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
  EXPECT_THAT(message(8, std::int64_t{1} << 39), HasSubstr("): train for fewer samples"));
  EXPECT_THAT(message(8, std::numeric_limits<std::int64_t>::max()), HasSubstr("samples"));
  EXPECT_THAT(message(8, -1), HasSubstr("-1 samples"));
  EXPECT_THAT(message(1 << 30, std::int64_t{1} << 31), HasSubstr("more than can be indexed"));
}

}  // namespace
}  // namespace phalanx
