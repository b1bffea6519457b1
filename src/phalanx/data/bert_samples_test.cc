#include "phalanx/data/bert_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "phalanx/data/test_files.h"
#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class BertSamplesTest : public testing::ToySamplesTest<BertDataset, BertSample, BertOptions> {
 protected:
  static BertOptions options(double mask_prob) {
    return {.common = {.vocabulary = testing::toy_vocabulary(),
                       .sequence_length = 24,
                       .mask_prob = mask_prob}};
  }
};

void expect_equal(const BertSample& a, const BertSample& b) {
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.loss_mask, b.loss_mask);
  EXPECT_EQ(a.padding_mask, b.padding_mask);
  EXPECT_EQ(a.is_random, b.is_random);
  EXPECT_EQ(a.truncated, b.truncated);
}

// What Megatron-core makes of the same corpus.
TEST_F(BertSamplesTest, MegatronsSamples) {
  const std::vector<BertSample> known{
      {.text = {2, 37, 7, 28, 26, 19, 32, 27, 5, 33, 32, 4, 4, 4, 3, 24, 9, 4, 4, 4, 21, 32, 17, 3},
       .types = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1},
       .labels = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 9,
                  32, 39, -1, -1, -1, 14, 12, 31, -1, -1, -1, -1},
       .loss_mask = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0},
       .padding_mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
       .is_random = false,
       .truncated = true},
      {.text = {2,  5,  17, 4,  4, 4,  4,  10, 39, 18, 32, 16,
                16, 31, 35, 10, 3, 20, 35, 34, 24, 3,  0,  0},
       .types = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0},
       .labels = {-1, -1, 17, 36, 17, 20, 27, -1, -1, -1, -1, -1,
                  -1, -1, -1, 38, -1, -1, -1, -1, -1, -1, -1, -1},
       .loss_mask = {0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
       .padding_mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
       .is_random = false,
       .truncated = false},
      {.text = {2,  4,  17, 4,  17, 20, 27, 10, 39, 28, 32, 16,
                16, 31, 35, 38, 3,  4,  4,  4,  24, 3,  0,  0},
       .types = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0},
       .labels = {-1, 5,  -1, 36, -1, -1, -1, -1, -1, 18, -1, -1,
                  -1, -1, -1, -1, -1, 20, 35, 34, -1, -1, -1, -1},
       .loss_mask = {0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0},
       .padding_mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
       .is_random = false,
       .truncated = false},
      {.text = {2, 19, 21, 28, 4, 30, 3, 4, 4, 24, 12, 18, 30, 15, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       .types = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       .labels = {-1, -1, -1, -1, 30, -1, -1, 30, 23, -1, 12, -1,
                  -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
       .loss_mask = {0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       .padding_mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       .is_random = false,
       .truncated = false},
  };
  const auto data = dataset(options(0.3));
  ASSERT_EQ(data->size(), 24);
  for (std::size_t i = 0; i < known.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal(sample(*data, static_cast<std::int64_t>(i)), known[i]);
  }
}

// Item 17 was cut for 2 tokens, of which 15 % are none.
TEST_F(BertSamplesTest, NothingMayBeMasked) {
  const auto data = dataset(options(0.15));
  EXPECT_EQ(data->mapping()[17], (SentenceSpan{3, 5, 2}));
  const BertSample known = sample(*data, 17);
  Ids text(24, 0);
  std::ranges::copy(Ids{2, 32, 3, 32, 3}, text.begin());
  EXPECT_EQ(known.text, text);
  EXPECT_THAT(known.labels, Each(-1));
  EXPECT_THAT(known.loss_mask, Each(0));
  EXPECT_EQ(std::reduce(known.padding_mask.begin(), known.padding_mask.end()), 5);
}

TEST_F(BertSamplesTest, WithoutTheBinaryHeadASampleIsOnePart) {
  BertOptions one = options(0.15);
  one.binary_head = false;
  const auto data = dataset(one);
  EXPECT_EQ(data->mapping()[0], (SentenceSpan{18, 20, 21}));
  const BertSample known = sample(*data, 0);
  Ids text(24, 0);
  std::ranges::copy(Ids{2, 26, 5, 23, 31, 15, 4, 4, 8, 26, 26, 9, 4, 37, 39, 14, 3}, text.begin());
  EXPECT_EQ(known.text, text);
  EXPECT_THAT(known.types, Each(0));
  EXPECT_FALSE(known.is_random);
  Ids labels(24, -1);
  labels[6] = 38;
  labels[7] = 28;
  labels[12] = 33;
  EXPECT_EQ(known.labels, labels);
  EXPECT_EQ(BertSamples(data).losses(), 1);
  // A document of one sentence serves, too.
  bool is_seen = false;
  for (std::int64_t i = 0; i < data->size(); ++i) is_seen |= data->mapping()[i].first == 9;
  EXPECT_TRUE(is_seen);
}

// Whatever is drawn: what is not masked comes from the sentences, and every list agrees.
TEST_F(BertSamplesTest, ListsAgree) {
  for (const bool head : {true, false}) {
    BertOptions some = options(0.25);
    some.binary_head = head;
    some.common.sequence_length = 17;
    some.common.short_seq_prob = 0.5;
    const auto data = dataset(some);
    const IndexedDataset file(prefix_);
    for (std::int64_t i = 0; i < data->size(); ++i) {
      const BertSample whole = sample(*data, i);
      const SentenceSpan span = data->mapping()[i];
      Ids available;
      for (std::int64_t j = span.first; j < span.end; ++j) {
        Ids ids(static_cast<std::size_t>(file.length(j)));
        file.get(j, 0, std::span(ids));
        available.insert(available.end(), ids.begin(), ids.end());
      }
      Ids real;  // as it was before it was masked
      for (std::size_t row = 0; row < whole.text.size(); ++row) {
        EXPECT_EQ(whole.loss_mask[row], whole.labels[row] == -1 ? 0 : 1);
        if (whole.padding_mask[row] == 0) {
          EXPECT_EQ(whole.text[row] + whole.types[row] + whole.loss_mask[row], 0);
          continue;
        }
        real.push_back(whole.labels[row] == -1 ? whole.text[row] : whole.labels[row]);
      }
      EXPECT_EQ(real.front(), 2);
      EXPECT_EQ(real.back(), 3);
      std::erase_if(real, [](auto id) { return id == 2 || id == 3; });
      EXPECT_EQ(std::ssize(real), std::min<std::int64_t>(std::ssize(available), span.target));
      EXPECT_EQ(whole.truncated, real.size() < available.size());
      std::ranges::sort(real);
      std::ranges::sort(available);
      EXPECT_TRUE(std::ranges::includes(available, real)) << i;
    }
  }
}

TEST_F(BertSamplesTest, ColumnsOfABatch) {
  const BertSamples source(dataset(options(0.3)));
  ASSERT_EQ(source.losses(), 2);
  HostBatch batch(source.schema(), 2);
  Sample columns_of_one(source.schema());
  for (const std::int64_t place : {0, 1}) {
    std::array<double, 2> counts{};
    source.fetch(place, columns_of_one, counts);
    EXPECT_THAT(counts, ElementsAre(place == 0 ? 6 : 6, 1));
    batch.put(place, 100 + place, columns_of_one);
  }
  const auto column = [&](const char* name) { return batch.column<std::int32_t>(name); };
  const BertSample first = sample(source.dataset(), 0);
  const BertSample second = sample(source.dataset(), 1);
  for (std::size_t row = 0; row < 24; ++row) {
    const std::size_t at = 2 * row;
    EXPECT_EQ(column("tokens")[at], first.text[row]);
    EXPECT_EQ(column("tokens")[at + 1], second.text[row]);
    EXPECT_EQ(column("types")[at + 1], second.types[row]);
    EXPECT_EQ(column("labels")[at + 1], second.labels[row]);
    EXPECT_EQ(batch.column<float>("loss_mask")[at + 1], static_cast<float>(second.loss_mask[row]));
    EXPECT_EQ(column("document")[at], 0);
    EXPECT_EQ(column("document")[at + 1], row < 22 ? 0 : -1);
    EXPECT_EQ(column("position")[at + 1], static_cast<std::int32_t>(row));
    EXPECT_EQ(column("position_ids")[at + 1], static_cast<std::int32_t>(row));
    EXPECT_EQ(batch.column<std::int64_t>("sample")[at], 100);
    EXPECT_EQ(batch.column<std::int64_t>("sample")[at + 1], 101);
  }
  EXPECT_THAT(column("is_random"), ElementsAre(0, 0));
}

TEST_F(BertSamplesTest, SentencesAreExchangedHalfOfTheTime) {
  const auto data = dataset(options(0.15));
  const BertSamples source(data);
  Sample columns(source.schema());
  std::array<double, 2> counts{};
  int exchanged = 0;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    const bool is_random = sample(*data, i).is_random;
    source.fetch(i, columns, counts);
    EXPECT_EQ(columns.column<std::int32_t>(source.schema().index("is_random"))[0],
              is_random ? 1 : 0);
    exchanged += is_random ? 1 : 0;
  }
  EXPECT_GT(exchanged, 4);
  EXPECT_LT(exchanged, 20);
}

TEST_F(BertSamplesTest, WhatCannotBe) {
  const auto refused = [&](const std::function<void(BertOptions&, MaskingVocabulary&)>& change) {
    BertOptions bad = options(0.15);
    auto vocabulary = testing::toy_vocabulary();
    change(bad, *vocabulary);
    bad.common.vocabulary = vocabulary;
    return error_of(ErrorCode::kConfiguration, [&] { dataset(bad); });
  };
  EXPECT_THAT(refused([](auto&, auto& v) { v.cls = -1; }), HasSubstr("[CLS]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.sep = -1; }), HasSubstr("[SEP]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.mask = -1; }), HasSubstr("[MASK]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.pad = -1; }), HasSubstr("[PAD]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.pad = 1; }), HasSubstr("padding is id 0"));
  EXPECT_THAT(refused([](auto& o, auto&) { o.common.sequence_length = 4; }),
              HasSubstr("--seq-length 4"));
  EXPECT_THAT(refused([](auto& o, auto&) { o.common.mask_prob = 1.0; }),
              HasSubstr("--mask-prob 1"));
  EXPECT_THAT(refused([](auto& o, auto&) { o.common.short_seq_prob = -0.1; }),
              HasSubstr("--short-seq-prob -0.1"));
  BertOptions small = options(0.15);
  auto vocabulary = testing::toy_vocabulary();
  vocabulary->size = 20;
  vocabulary->continues.resize(20);
  small.common.vocabulary = vocabulary;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { sample(*dataset(small), 0); }),
              HasSubstr("outside the vocabulary of 20 ids"));
}

}  // namespace
}  // namespace phalanx
