#include "phalanx/data/masked_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "phalanx/data/blended_source.h"
#include "phalanx/data/cyclic_sampler.h"
#include "phalanx/data/loader.h"
#include "phalanx/data/test_files.h"
#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class MaskedSourcesTest : public ::testing::Test {
 protected:
  // `documents` of three sentences of `length` tokens.
  DataBlend write(const std::string& name, std::int32_t documents, std::int32_t length) const {
    const testing::SentencesOfDocuments lengths(static_cast<std::size_t>(documents),
                                                std::vector<std::int32_t>(3, length));
    testing::write_sentences(directory_ / name, lengths);
    return {.prefixes = {directory_ / name}, .weights = {}};
  }
  MaskedOptions common() const {
    return {.vocabulary = testing::toy_vocabulary(8), .sequence_length = 16, .mask_prob = 0.3};
  }
  BertSources bert() const { return BertSources({.common = common()}); }
  T5Sources t5() const { return T5Sources({.common = common(), .decoder_sequence_length = 16}); }

  static const BertDataset& dataset_of(const SampleSource& source) {
    return dynamic_cast<const BertSamples&>(source).dataset();
  }
  static Ids tokens_of(const SampleSource& source, std::int64_t index) {
    Sample sample(source.schema());
    std::vector<double> counts(static_cast<std::size_t>(source.losses()));
    source.fetch(index, sample, counts);
    const auto tokens = sample.column<std::int32_t>(source.schema().index("tokens"));
    return {tokens.begin(), tokens.end()};
  }

  TemporaryDirectory directory_;
};

TEST_F(MaskedSourcesTest, SplitsDivideDocuments) {
  const DataBlend one = write("a", 10, 5);
  BertSources all = bert();
  const Split split("6,3,1");
  std::int64_t begin = 0;
  for (const auto& [kind, documents] :
       {std::pair{SplitKind::kTrain, 6}, {SplitKind::kValid, 3}, {SplitKind::kTest, 1}}) {
    const auto source = all.make(one, {kind, 25, split});
    ASSERT_TRUE(source);
    EXPECT_GE(source->size(), 25);
    for (std::int64_t i = 0; i < source->size(); ++i) {
      const SentenceSpan span = dataset_of(*source).mapping()[i];
      EXPECT_GE(span.first, 3 * begin);
      EXPECT_LE(span.end, 3 * (begin + documents));
    }
    begin += documents;
  }
  EXPECT_FALSE(all.make(one, {SplitKind::kTest, 0, split}));
  EXPECT_EQ(all.documents(), 10);
  EXPECT_EQ(all.tokens(), 150);
}

// Without a request every sample comes once: one epoch.
TEST_F(MaskedSourcesTest, EachSampleOnce) {
  const auto source = bert().make(write("a", 10, 5), {SplitKind::kValid, {}, {}});
  std::map<std::int64_t, int> seen;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const SentenceSpan span = dataset_of(*source).mapping()[i];
    for (std::int64_t j = span.first; j < span.end; ++j) EXPECT_EQ(++seen[j], 1);
  }
  EXPECT_EQ(seen.size(), 30U);
}

TEST_F(MaskedSourcesTest, WeightsMixDatasets) {
  const DataBlend small = write("small", 4, 3);
  const DataBlend large = write("large", 30, 7);
  const DataBlend both{.prefixes = {small.prefixes[0], large.prefixes[0]}, .weights = {1, 3}};
  const auto source = bert().make(both, {SplitKind::kTrain, 200, {}});
  EXPECT_EQ(source->size(), 200);
  const auto member = [&](const DataBlend& one, std::int64_t samples) {
    return bert().make(one, {SplitKind::kTrain, samples, {}});
  };
  const auto smalls = member(small, 51);
  const auto larges = member(large, 151);
  std::int64_t counts[2] = {};
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const SamplePlace place = source->place_of(i);
    const bool is_small = dataset_of(*place.source).mapping().size() == smalls->size();
    const auto& from = is_small ? smalls : larges;
    EXPECT_EQ(place.index, counts[is_small ? 0 : 1]++);
    EXPECT_EQ(tokens_of(*source, i), tokens_of(*from, place.index));
  }
  EXPECT_EQ(counts[0], 50);
  EXPECT_EQ(counts[1], 150);
  // Without weights each sample comes once, and so does each of the datasets'.
  const auto once =
      bert().make({.prefixes = both.prefixes, .weights = {}}, {SplitKind::kTrain, {}, {}});
  EXPECT_EQ(once->size(), member(small, 1)->size() + member(large, 1)->size());
}

// A resumed run, other readers: the order is the sampler's, and a sample is a function of its
// index.
TEST_F(MaskedSourcesTest, ACyclicOrderComesAgain) {
  const std::vector<std::shared_ptr<const SampleSource>> sources{
      bert().make(write("a", 12, 5), {SplitKind::kTrain, 40, {}}),
      t5().make(write("b", 12, 5), {SplitKind::kTrain, 40, {}})};
  for (const auto& source : sources) {
    const auto batches = [&](std::int64_t consumed, int workers, int count) {
      const std::shared_ptr<Sampler> sampler = make_sampler(
          SamplerType::kCyclic, true,
          {.total_samples = source->size(), .consumed_samples = consumed, .micro_batch_size = 3});
      BatchLoader loader(source, [sampler] { return sampler->next(); },
                         {.micro_batch_size = 3, .ahead = 4, .workers = workers});
      std::vector<std::vector<std::byte>> all;
      for (int i = 0; i < count; ++i) {
        const auto bytes = loader.next().bytes();
        all.emplace_back(bytes.begin(), bytes.end());
      }
      return all;
    };
    const auto whole = batches(0, 0, 30);  // more than an epoch
    EXPECT_EQ(batches(0, 3, 30), whole);
    auto rest = batches(12, 2, 26);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 4, whole.end()));
  }
}

TEST_F(MaskedSourcesTest, CountsOfAStepAreKnownBeforeIt) {
  const auto source = bert().make(write("a", 12, 5), {SplitKind::kTrain, 40, {}});
  std::int64_t next = 0;
  BatchLoader loader(source,
                     [&] {
                       next += 2;
                       return std::vector<SampleId>{{next - 2, next - 2}, {next - 1, next - 1}};
                     },
                     {.micro_batch_size = 2, .ahead = 3, .workers = 0});
  const auto counts = loader.counts(3);
  double masked = 0.0;
  for (int i = 0; i < 3; ++i) {
    const HostBatch& batch = loader.next();
    const auto mask = batch.column<float>("loss_mask");
    masked += static_cast<double>(std::ranges::count(mask, 1.0F));
  }
  EXPECT_EQ(counts, (std::vector<double>{masked, 6.0}));
}

TEST_F(MaskedSourcesTest, PaddingCountsForNothing) {
  const auto source = bert().make(write("a", 5, 5), {SplitKind::kValid, {}, {}});
  const PaddedSource padded(source, 4);
  ASSERT_GT(padded.size(), source->size());
  Sample sample(padded.schema());
  std::array<double, 2> counts{9, 9};
  padded.fetch(padded.size() - 1, sample, counts);
  EXPECT_EQ(counts, (std::array<double, 2>{}));
  const auto mask = sample.column<float>(padded.schema().index("loss_mask"));
  EXPECT_EQ(std::ranges::count(mask, 0.0F), 16);
  EXPECT_EQ(sample.column<std::int32_t>(padded.schema().index("is_random"))[0], -1);
  EXPECT_EQ(padded.place_of(padded.size() - 1).index, source->size() - 1);
}

TEST_F(MaskedSourcesTest, ErrorsNameDatasetAndPart) {
  // One sequence a document, as for a GPT.
  testing::write_counting_dataset(directory_ / "gpt", {5, 6, 7, 8});
  const DataBlend gpt{.prefixes = {directory_ / "gpt"}, .weights = {}};
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         bert().make(gpt, {SplitKind::kTrain, 5, Split("3,1")});
                       }),
              AllOf(HasSubstr(directory_ / "gpt"),
                    HasSubstr("train split (documents 0 to 3): none of 3 documents can be used"),
                    HasSubstr("--split-sentences")));
  EXPECT_TRUE(t5().make(gpt, {SplitKind::kTrain, 5, {}}));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         bert().make_mock({SplitKind::kTrain, 5, {}});
                       }),
              HasSubstr("--mock-data"));
  error_of(ErrorCode::kConfiguration, [&] { t5().make_mock({SplitKind::kTrain, 5, {}}); });
}

TEST_F(MaskedSourcesTest, T5WarnsWhereItMayNotFit) {
  const auto said = [&](std::int64_t decoder, std::int32_t sentinels) {
    ::testing::internal::CaptureStderr();
    MaskedOptions options = common();
    options.vocabulary = testing::toy_vocabulary(sentinels);
    const T5Sources sources({.common = options, .decoder_sequence_length = decoder});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(9, 4), "");  // 14 tokens at 0.3: 4 spans of a token
  EXPECT_THAT(said(8, 4), HasSubstr("--decoder-seq-length 8: a sample can have up to 9 tokens"));
  EXPECT_THAT(said(9, 3), HasSubstr("--vocab-extra-ids 3: a sample can have up to 4 spans"));
}

}  // namespace
}  // namespace phalanx
