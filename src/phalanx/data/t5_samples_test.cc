#include "phalanx/data/t5_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "phalanx/data/test_files.h"
#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Ids padded(Ids ids, std::size_t size, std::int32_t padding) {
  ids.resize(size, padding);
  return ids;
}

class T5SamplesTest : public testing::ToySamplesTest<T5Dataset, T5Sample, T5Options> {
 protected:
  static T5Options options(std::int32_t sentinels = 8, std::int64_t decoder = 16) {
    return {.common = {.vocabulary = testing::toy_vocabulary(sentinels),
                       .sequence_length = 24,
                       .mask_prob = 0.3},
            .decoder_sequence_length = decoder};
  }
};

// What Megatron-core makes of the same corpus.
TEST_F(T5SamplesTest, MegatronsSamples) {
  const auto data = dataset(options());
  ASSERT_EQ(data->size(), 21);
  EXPECT_EQ(data->mapping()[0], (SentenceSpan{18, 20, 22}));
  EXPECT_EQ(data->mapping()[1], (SentenceSpan{7, 9, 22}));
  EXPECT_EQ(data->mapping()[2], (SentenceSpan{10, 13, 22}));
  EXPECT_EQ(data->mapping()[3], (SentenceSpan{7, 9, 22}));
  struct Known {
    Ids text_enc, text_dec, labels;
  };
  const std::vector<Known> known{
      {{26, 5, 23, 31, 15, 42, 28, 8, 26, 26, 9, 43, 44, 14},
       {40, 42, 38, 43, 33, 44, 37, 39},
       {42, 38, 43, 33, 44, 37, 39, 41}},
      {{19, 21, 28, 30, 42, 24, 12, 43, 30, 15},
       {40, 42, 30, 30, 23, 43, 18},
       {42, 30, 30, 23, 43, 18, 41}},
      {{42, 20, 43, 20, 11, 17}, {40, 42, 11, 43, 37}, {42, 11, 43, 37, 41}},
      {{19, 21, 28, 42, 43, 24, 12, 18, 30, 15},
       {40, 42, 30, 30, 43, 30, 23},
       {42, 30, 30, 43, 30, 23, 41}},
  };
  for (std::size_t i = 0; i < known.size(); ++i) {
    SCOPED_TRACE(i);
    const T5Sample whole = sample(*data, static_cast<std::int64_t>(i));
    EXPECT_EQ(whole.text_enc, padded(known[i].text_enc, 24, 0));
    EXPECT_EQ(whole.text_dec, padded(known[i].text_dec, 16, 0));
    EXPECT_EQ(whole.labels, padded(known[i].labels, 16, -1));
    EXPECT_EQ(whole.encoder_tokens, std::ssize(known[i].text_enc));
    EXPECT_EQ(whole.decoder_tokens, std::ssize(known[i].text_dec));
    for (std::size_t row = 0; row < 16; ++row) {
      EXPECT_EQ(whole.loss_mask[row], whole.labels[row] == -1 ? 0 : 1);
    }
    EXPECT_FALSE(whole.truncated);
  }
}

// Whatever is drawn: the encoder's text with the decoder's spans in it is what the file says.
TEST_F(T5SamplesTest, SpansFillTheirSentinels) {
  T5Options some = options(30, 60);
  some.common.mask_prob = 0.45;
  some.common.sequence_length = 30;
  some.common.short_seq_prob = 0.5;
  const auto data = dataset(some);
  const IndexedDataset file(prefix_);
  int cut = 0;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    const T5Sample whole = sample(*data, i);
    const SentenceSpan span = data->mapping()[i];
    Ids available;
    for (std::int64_t j = span.first; j < span.end; ++j) {
      Ids ids(static_cast<std::size_t>(file.length(j)));
      file.get(j, 0, std::span(ids));
      available.insert(available.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(whole.truncated, std::ssize(available) > span.target);
    cut += whole.truncated ? 1 : 0;
    if (whole.truncated) available.resize(static_cast<std::size_t>(span.target));
    EXPECT_EQ(whole.text_dec.front(), 40);
    const auto tokens = static_cast<std::size_t>(whole.decoder_tokens);
    EXPECT_EQ(whole.labels[tokens - 1], 41);
    for (std::size_t row = 1; row < tokens; ++row) {
      EXPECT_EQ(whole.text_dec[row], whole.labels[row - 1]);
    }
    Ids restored;
    std::size_t at = 1;
    std::int32_t sentinel = 42;
    for (std::int64_t row = 0; row < whole.encoder_tokens; ++row) {
      const std::int32_t id = whole.text_enc[static_cast<std::size_t>(row)];
      if (id < 42) {
        restored.push_back(id);
        continue;
      }
      EXPECT_EQ(id, sentinel++);  // ascending from the first one
      EXPECT_EQ(whole.text_dec[at++], id);
      while (at < tokens && whole.text_dec[at] < 42) restored.push_back(whole.text_dec[at++]);
    }
    EXPECT_EQ(restored, available) << i;
    EXPECT_LE(whole.decoder_tokens, most_decoder_tokens(some));
  }
  EXPECT_GT(cut, 0);
}

TEST_F(T5SamplesTest, ColumnsOfABatch) {
  const T5Samples source(dataset(options()));
  ASSERT_EQ(source.losses(), 1);
  HostBatch batch(source.schema(), 2);
  Sample columns_of_one(source.schema());
  for (const std::int64_t place : {0, 1}) {
    double count = 0.0;
    source.fetch(place, columns_of_one, {&count, 1});
    EXPECT_EQ(count, place == 0 ? 8 : 7);
    batch.put(place, 100 + place, columns_of_one);
  }
  const auto column = [&](const char* name) { return batch.column<std::int32_t>(name); };
  const T5Sample second = sample(source.dataset(), 1);
  ASSERT_EQ(column("tokens").size(), 48U);
  ASSERT_EQ(column("labels").size(), 32U);
  for (std::size_t row = 0; row < 24; ++row) {
    const std::size_t at = 2 * row + 1;
    EXPECT_EQ(column("tokens")[at], second.text_enc[row]);
    EXPECT_EQ(column("document")[at], row < 10 ? 0 : -1);
    EXPECT_EQ(column("position")[at], static_cast<std::int32_t>(row));
    EXPECT_EQ(column("position_ids")[at], static_cast<std::int32_t>(row));
    EXPECT_EQ(batch.column<std::int64_t>("sample")[at], 101);
    EXPECT_EQ(batch.column<std::int64_t>("sample")[at - 1], 100);
  }
  for (std::size_t row = 0; row < 16; ++row) {
    const std::size_t at = 2 * row + 1;
    EXPECT_EQ(column("decoder_tokens")[at], second.text_dec[row]);
    EXPECT_EQ(column("labels")[at], second.labels[row]);
    EXPECT_EQ(batch.column<float>("loss_mask")[at], static_cast<float>(second.loss_mask[row]));
    EXPECT_EQ(column("decoder_document")[at], row < 7 ? 0 : -1);
    EXPECT_EQ(column("decoder_position")[at], static_cast<std::int32_t>(row));
    EXPECT_EQ(column("decoder_position_ids")[at], static_cast<std::int32_t>(row));
    EXPECT_EQ(batch.column<std::int64_t>("decoder_sample")[at], 101);
    EXPECT_EQ(batch.column<std::int64_t>("decoder_sample")[at - 1], 100);
  }
}

TEST_F(T5SamplesTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { sample(*dataset(options(1)), 0); }),
              AllOf(HasSubstr("sample 0 of " + prefix_ + " (sentences 18 to 19)"),
                    HasSubstr("3 masked spans, and the tokenizer 1 sentinels"),
                    HasSubstr("--vocab-extra-ids")));
  EXPECT_EQ(sample(*dataset(options(3)), 0).decoder_tokens, 8);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { sample(*dataset(options(8, 7)), 0); }),
              AllOf(HasSubstr("sample 0 of " + prefix_), HasSubstr("8 tokens"),
                    HasSubstr("--decoder-seq-length 7")));
  EXPECT_EQ(sample(*dataset(options(8, 8)), 0).decoder_tokens, 8);
}

TEST_F(T5SamplesTest, WhatCannotBe) {
  const auto refused = [&](const std::function<void(T5Options&, MaskingVocabulary&)>& change) {
    T5Options bad = options();
    auto vocabulary = testing::toy_vocabulary(8);
    change(bad, *vocabulary);
    bad.common.vocabulary = vocabulary;
    return error_of(ErrorCode::kConfiguration, [&] { dataset(bad); });
  };
  EXPECT_THAT(refused([](auto&, auto& v) { v.bos = -1; }), HasSubstr("[BOS]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.eos = -1; }), HasSubstr("[EOS]"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.sentinels.clear(); }), HasSubstr("--vocab-extra-ids"));
  EXPECT_THAT(refused([](auto&, auto& v) { v.pad = 5; }), HasSubstr("padding is id 0"));
  EXPECT_THAT(refused([](auto& o, auto&) { o.common.sequence_length = 3; }),
              HasSubstr("--seq-length 3"));
  EXPECT_THAT(refused([](auto& o, auto&) { o.decoder_sequence_length = 0; }),
              HasSubstr("--decoder-seq-length"));
}

}  // namespace
}  // namespace phalanx
