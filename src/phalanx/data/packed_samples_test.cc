#include "phalanx/data/packed_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "phalanx/data/gpt_test_support.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kEod = 9;

class PackedSamplesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    IndexedDatasetWriter writer(directory_ / "d", TokenType::kU16);
    for (const std::vector<std::int32_t>& ids : documents_) {
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.commit();
  }
  PackedSamples samples(const PackIndexOptions& options, const GptBatchOptions& batch = {},
                        const IndexCache* cache = nullptr) {
    return {std::make_shared<const IndexedDataset>(directory_ / "d"),
            {0, std::ssize(documents_)},
            100,
            options,
            batch,
            testing::gpt_schema(options.sequence_length),
            cache};
  }
  double fetch(const PackedSamples& source, std::int64_t i) {
    Sample sample(source.schema());
    double count = -1.0;
    source.fetch(i, sample, {&count, 1});
    batch_ = HostBatch(source.schema(), 1);
    batch_.put(0, 100 + i, sample);
    return count;
  }

  TemporaryDirectory directory_;
  HostBatch batch_;
  std::vector<std::vector<std::int32_t>> documents_ = {
      {10, 11, kEod}, {20, 21, 22, 23, 24, 25, 26, kEod}, {30, kEod}, {}, {40}};
};

const PackIndexOptions kInOrder = {
    .sequence_length = 6, .packing = DocumentPacking::kBestFit, .order = DataOrder::kSequential};

TEST_F(PackedSamplesTest, ColumnsOfWholeDocuments) {
  const PackedSamples source = samples(kInOrder);
  EXPECT_EQ(source.size(), 2);
  EXPECT_EQ(fetch(source, 0), 5);  // the document that is cut
  testing::GptColumns columns(batch_);
  EXPECT_THAT(columns.tokens, ElementsAre(20, 21, 22, 23, 24, 25));
  EXPECT_THAT(columns.labels, ElementsAre(21, 22, 23, 24, 25, 0));
  EXPECT_THAT(columns.loss_mask, ElementsAre(1, 1, 1, 1, 1, 0));

  EXPECT_EQ(fetch(source, 1), 3);
  columns = testing::GptColumns(batch_);
  EXPECT_THAT(columns.tokens, ElementsAre(10, 11, kEod, 30, kEod, 40));
  EXPECT_THAT(columns.labels, ElementsAre(11, kEod, 0, kEod, 0, 0));
  EXPECT_THAT(columns.loss_mask, ElementsAre(1, 1, 0, 1, 0, 0));
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 1, 2, 0, 1, 0));
  EXPECT_THAT(columns.position, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(columns.document, ElementsAre(0, 0, 0, 1, 1, 2));
  EXPECT_THAT(columns.sample, ElementsAre(101, 101, 101, 101, 101, 101));
}

TEST_F(PackedSamplesTest, WhatIsNotFilledIsPadding) {
  PackIndexOptions options = kInOrder;
  options.sequence_length = 16;
  const PackedSamples source = samples(options, {.eod = kEod, .eod_mask_loss = true});
  EXPECT_EQ(source.size(), 1);
  EXPECT_EQ(fetch(source, 0), 7 + 2 + 1);
  const testing::GptColumns columns(batch_);
  EXPECT_THAT(columns.tokens.subspan(11), ElementsAre(30, kEod, 40, 0, 0));
  EXPECT_THAT(columns.labels.subspan(11), ElementsAre(kEod, 0, 0, 0, 0));
  EXPECT_THAT(columns.loss_mask.subspan(11), ElementsAre(1, 0, 0, 0, 0));
  EXPECT_THAT(columns.position_ids.subspan(11), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(columns.position.subspan(11), ElementsAre(11, 12, 13, 14, 15));
  EXPECT_THAT(columns.document.subspan(11), ElementsAre(2, 2, 3, -1, -1));
}

// As context parallelism cuts them.
TEST_F(PackedSamplesTest, DocumentsTakeAMultipleOfRows) {
  PackIndexOptions options = kInOrder;
  options.sequence_length = 16;
  options.document_multiple = 4;
  const PackedSamples source = samples(options);  // documents of 8, 3 and 2 tokens
  EXPECT_EQ(source.size(), 1);
  EXPECT_EQ(source.index().counts.tokens, 13);
  EXPECT_EQ(source.index().counts.dropped_packs, 1);
  EXPECT_EQ(fetch(source, 0), 7 + 2 + 1);
  const testing::GptColumns columns(batch_);
  EXPECT_THAT(columns.tokens,
              ElementsAre(20, 21, 22, 23, 24, 25, 26, kEod, 10, 11, kEod, 0, 30, kEod, 0, 0));
  EXPECT_THAT(columns.labels.subspan(8), ElementsAre(11, kEod, 0, 0, kEod, 0, 0, 0));
  EXPECT_THAT(columns.loss_mask.subspan(8), ElementsAre(1, 1, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(columns.position_ids.subspan(8), ElementsAre(0, 1, 2, 0, 0, 1, 0, 0));
  EXPECT_THAT(columns.position.subspan(8), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(columns.document.subspan(8), ElementsAre(1, 1, 1, -1, 2, 2, -1, -1));
  EXPECT_EQ(source.mean_of_documents([](std::int64_t n) { return static_cast<double>(n); }), 13.0);
  // What a rank has of it.
  const ContextCut cut(2, ContextCut::Kind::kDocuments);
  EXPECT_EQ(cut.rows(16, columns.document, 1),
            (std::vector<ContextCut::Range>{{2, 2}, {4, 2}, {9, 1}, {10, 1}, {13, 1}, {14, 1}}));
}

TEST_F(PackedSamplesTest, MeansOfDocuments) {
  const PackedSamples source = samples(kInOrder);  // documents of 6 | 3, 2 and 1 tokens
  EXPECT_EQ(source.mean_of_documents([](std::int64_t n) { return static_cast<double>(n); }), 6.0);
  EXPECT_EQ(source.mean_of_documents([](std::int64_t n) { return static_cast<double>(n * n); }),
            (36.0 + 9.0 + 4.0 + 1.0) / 2);
}

TEST_F(PackedSamplesTest, EveryEpochIsAnOrderOfItsOwn) {
  documents_.assign(50, {1, 2, 3});
  SetUp();
  const PackedSamples source =
      samples({.sequence_length = 3, .samples = 120, .seed = 7, .order = DataOrder::kMegatron});
  ASSERT_EQ(source.size(), 150);
  std::vector<std::vector<std::int64_t>> epochs(3);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    epochs[static_cast<std::size_t>(i / 50)].push_back(source.index().shuffle[i]);
  }
  for (const auto& epoch : epochs) EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 50);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST_F(PackedSamplesTest, TheCacheGivesTheSame) {
  const IndexCache cache(directory_ / "cache");
  for (const auto packing : {DocumentPacking::kGreedy, DocumentPacking::kBestFit}) {
    const PackIndexOptions options = {.sequence_length = 6, .packing = packing, .samples = 9};
    const PackedSamples built = samples(options);
    for (int run = 0; run < 2; ++run) {
      const PackedSamples kept = samples(options, {}, &cache);
      EXPECT_NE(kept.index().file, "");
      EXPECT_EQ(kept.index().counts, built.index().counts);
      ASSERT_EQ(kept.size(), built.size());
      for (std::int64_t i = 0; i < kept.size(); ++i) {
        EXPECT_EQ(kept.index().shuffle[i], built.index().shuffle[i]);
        EXPECT_EQ(fetch(kept, i), fetch(built, i));
      }
    }
  }
  // Documents of other sizes are other packs.
  PackIndexOptions options = {.sequence_length = 6, .samples = 9};
  const std::string file = samples(options, {}, &cache).index().file;
  options.document_multiple = 2;
  EXPECT_NE(samples(options, {}, &cache).index().file, file);
}

// Ids of one width with a mask for each.
class MarkedSequences final : public TokenSequences {
 public:
  std::string_view name() const override { return "marked"; }
  std::int64_t sequences() const override { return std::ssize(lengths_); }
  std::int32_t length(std::int64_t sequence) const override {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  SequenceLengths lengths(std::int64_t begin, std::int64_t end) const override {
    return SequenceLengths(std::span<const std::int32_t>(lengths_)).part(begin, end);
  }
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override {
    std::iota(out.begin(), out.end(), static_cast<std::int32_t>(10 * (sequence + 1) + offset));
  }
  std::span<const std::uint8_t> trained(std::int64_t sequence) const override {
    return masks_[static_cast<std::size_t>(sequence)];
  }

 private:
  std::vector<std::int32_t> lengths_ = {5, 3, 2};
  std::vector<std::vector<std::uint8_t>> masks_ = {{0, 0, 1, 1, 0}, {1, 0, 1}, {1, 0}};
};

TEST_F(PackedSamplesTest, ALossIsTheMarkOfTheLabelsToken) {
  const auto source = [](bool averages_documents, std::int64_t multiple) {
    return PackedSamples(std::make_shared<const MarkedSequences>(), {0, 3}, 100,
                         {.sequence_length = 12,
                          .packing = DocumentPacking::kGreedy,
                          .document_multiple = multiple,
                          .order = DataOrder::kSequential},
                         {.averages_documents = averages_documents}, testing::gpt_schema(12));
  };
  EXPECT_EQ(fetch(source(false, 1), 0), 3);
  testing::GptColumns columns(batch_);
  EXPECT_THAT(columns.labels, ElementsAre(11, 12, 13, 14, 0, 21, 22, 0, 31, 0, 0, 0));
  // The first token of the next document is no label, whatever its mark.
  EXPECT_THAT(columns.loss_mask, ElementsAre(0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0));

  EXPECT_EQ(fetch(source(false, 2), 0), 3);
  columns = testing::GptColumns(batch_);
  EXPECT_THAT(columns.labels, ElementsAre(11, 12, 13, 14, 0, 0, 21, 22, 0, 0, 31, 0));
  EXPECT_THAT(columns.loss_mask, ElementsAre(0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0));

  EXPECT_EQ(fetch(source(true, 1), 0), 2);  // documents with a loss
  columns = testing::GptColumns(batch_);
  EXPECT_THAT(columns.loss_mask, ElementsAre(0, 0.5F, 0.5F, 0, 0, 0, 1, 0, 0, 0, 0, 0));
}

TEST_F(PackedSamplesTest, NothingToPack) {
  documents_ = {{1}, {2}, {}};
  SetUp();
  try {
    samples(kInOrder);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of two tokens or more"));
  }
}

TEST_F(PackedSamplesTest, IdsOutsideTheVocabularyAreNamed) {
  documents_ = {{1, 100}};
  SetUp();
  const PackedSamples source = samples(kInOrder);
  EXPECT_THROW(fetch(source, 0), DataError);
}

}  // namespace
}  // namespace phalanx
