#include "phalanx/data/gpt_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "phalanx/data/blend.h"
#include "phalanx/data/blended_source.h"
#include "phalanx/data/gpt_test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kLength = 4;

class GptSourcesTest : public ::testing::Test {
 protected:
  // Documents of these lengths, of tokens `first`, `first` + 1, ...
  std::string write(const std::string& name, const std::vector<std::int32_t>& lengths,
                    std::int32_t first) {
    IndexedDatasetWriter writer(directory_ / name, TokenType::kI32);
    for (const auto length : lengths) {
      Tokens ids(static_cast<std::size_t>(length));
      for (auto& id : ids) id = first++;
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.commit();
    return directory_ / name;
  }
  GptSources sources() const {
    return GptSources({.schema = testing::gpt_schema(kLength),
                       .batch = {},
                       .sequence_length = kLength,
                       .vocabulary_size = 10000});
  }
  static Tokens fetch(const SampleSource& source, std::int64_t index) {
    Sample sample(source.schema());
    double count = 0.0;
    source.fetch(index, sample, {&count, 1});
    const auto inputs = sample.column<std::int32_t>(source.schema().index("tokens"));
    return {inputs.begin(), inputs.end()};
  }
  static Tokens fetch(const GptDataset& dataset, std::int64_t index) {
    Tokens tokens(kLength + 1);
    dataset.sample(index, tokens);
    tokens.pop_back();
    return tokens;
  }
  TemporaryDirectory directory_;
};

TEST_F(GptSourcesTest, SplitsShareTheFile) {
  const DataBlend one{.prefixes = {write("d", testing::kGoldenLengths, 0)}, .weights = {}};
  GptSources all = sources();
  const Split split("6,3,1");
  const auto train = all.make(one, {SplitKind::kTrain, 30, split});
  const auto valid = all.make(one, {SplitKind::kValid, 10, split});
  ASSERT_TRUE(train && valid);
  EXPECT_FALSE(all.make(one, {SplitKind::kTest, 0, split}));
  EXPECT_GE(train->size(), 30);
  EXPECT_GE(valid->size(), 10);
  const auto data = std::make_shared<const IndexedDataset>(one.prefixes[0]);
  const GptDataset expected(data, {0, 6}, 70, {.sequence_length = kLength, .samples = 30});
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(fetch(*train, i), fetch(expected, i));
  }
  EXPECT_EQ(all.documents(), 10);
  EXPECT_EQ(all.tokens(), 70);
  // 10 documents leave nothing for a share of 1 %.
  EXPECT_FALSE(all.make(one, {SplitKind::kTest, 10, Split("99,0,1")}));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         all.make(one, {SplitKind::kTrain, 30, Split("0,1")});
                       }),
              HasSubstr("no training data"));
}

TEST_F(GptSourcesTest, TooSmallASplitIsNamed) {
  const DataBlend one{.prefixes = {write("t", {20, 1}, 0)}, .weights = {}};
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         sources().make(one, {SplitKind::kValid, 5, Split("1,1")});
                       }),
              HasSubstr("valid split (sequences 1 to 2): 1 tokens are too few"));
}

// Each dataset has what is requested of it, and gives its samples in its own order.
TEST_F(GptSourcesTest, WeightsMixDatasets) {
  const DataBlend blend{.prefixes = {write("a", {50, 50, 50}, 0), write("b", {30, 30, 30}, 1000),
                                     write("c", {9, 9, 9}, 2000)},
                        .weights = {5, 3, 2}};
  const auto source = sources().make(blend, {SplitKind::kTrain, 200, Split("2,1")});
  ASSERT_TRUE(source);
  EXPECT_EQ(source->size(), 200);
  std::vector<GptDataset> members;
  for (std::size_t d = 0; d < 3; ++d) {
    members.emplace_back(
        std::make_shared<const IndexedDataset>(blend.prefixes[d]), IndexRange{0, 2}, 10000,
        GptIndexOptions{.sequence_length = kLength, .samples = std::vector{101, 61, 41}[d]});
  }
  // The golden order of these weights begins so.
  const std::vector<std::size_t> order{0, 1, 2, 0, 1, 0, 2, 0, 1, 0, 0, 1, 2, 0, 1, 0, 2, 0, 1, 0};
  std::vector<std::int64_t> next(3);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(fetch(*source, static_cast<std::int64_t>(i)),
              fetch(members[order[i]], next[order[i]]++))
        << i;
  }
}

// One epoch of each, in the shares of their sizes.
TEST_F(GptSourcesTest, WithoutWeightsASampleComesOnce) {
  const DataBlend blend{.prefixes = {write("a", {41, 40}, 0), write("b", {21}, 1000)},
                        .weights = {}};
  GptSources all = sources();
  const auto whole = all.make(blend, {SplitKind::kTrain, std::nullopt, std::nullopt});
  EXPECT_EQ(whole->size(), 20 + 5);
  EXPECT_EQ(all.make(blend, {SplitKind::kTrain, 1000, std::nullopt})->size(), 25);
  const auto some = all.make(blend, {SplitKind::kTrain, 10, std::nullopt});
  EXPECT_EQ(some->size(), 10);
  std::map<Tokens, int> seen;
  int small = 0;
  for (std::int64_t i = 0; i < whole->size(); ++i) {
    const Tokens tokens = fetch(*whole, i);
    EXPECT_EQ(++seen[tokens], 1);
    if (i < 10) {
      EXPECT_EQ(fetch(*some, i), tokens);
      small += tokens[0] >= 1000 ? 1 : 0;
    }
  }
  EXPECT_EQ(small, 2);
}

TEST_F(GptSourcesTest, ADatasetWithoutAPartIsLeftOut) {
  const DataBlend blend{.prefixes = {write("a", {20, 20, 20, 20}, 0), write("b", {30}, 1000)},
                        .weights = {1, 1}};
  const auto valid = sources().make(blend, {SplitKind::kValid, 8, Split("3,1")});
  ASSERT_TRUE(valid);
  for (std::int64_t i = 0; i < valid->size(); ++i) EXPECT_LT(fetch(*valid, i)[0], 1000);
  EXPECT_FALSE(sources().make(blend, {SplitKind::kTest, 8, Split("3,1")}));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         sources().make(blend, {SplitKind::kTrain, 8, Split("0,1")});
                       }),
              HasSubstr("none of 2 datasets"));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         sources().make(blend, {SplitKind::kValid, std::nullopt, std::nullopt});
                       }),
              HasSubstr("leave the weights out"));
}

TEST_F(GptSourcesTest, PaddingCountsForNothing) {
  const DataBlend one{.prefixes = {write("a", {22}, 0)}, .weights = {}};
  const auto source = sources().make(one, {SplitKind::kValid, std::nullopt, std::nullopt});
  ASSERT_EQ(source->size(), 5);
  const PaddedSource padded(source, 4);
  EXPECT_EQ(padded.size(), 8);
  EXPECT_EQ(PaddedSource(source, 5).size(), 5);
  double all = 0.0;
  for (std::int64_t i = 0; i < padded.size(); ++i) {
    Sample sample(padded.schema());
    double count = -1.0;
    padded.fetch(i, sample, {&count, 1});
    const auto mask = sample.column<float>(padded.schema().index("loss_mask"));
    EXPECT_EQ(std::ranges::count(mask, i < 5 ? 1.0F : 0.0F), kLength);
    EXPECT_EQ(count, i < 5 ? kLength : 0);
    all += count;
  }
  EXPECT_EQ(all, 20);
}

TEST_F(GptSourcesTest, MadeUpData) {
  GptSources all({.schema = testing::gpt_schema(1024),  // short ones make a large index
                  .batch = {.eod = 49},
                  .sequence_length = 1024,
                  .vocabulary_size = 50});
  const auto train = all.make_mock({SplitKind::kTrain, 100, Split("969,30,1")});
  EXPECT_GE(train->size(), 100);
  const Tokens tokens = fetch(*train, 0);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    EXPECT_TRUE(tokens[i] == (tokens[i - 1] + 1) % 50 || tokens[i] == 49 || tokens[i - 1] == 49);
  }
  EXPECT_EQ(all.documents(), 100000);
  EXPECT_EQ(all.tokens(), 204637097);
}

}  // namespace
}  // namespace phalanx
