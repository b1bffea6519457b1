#include "phalanx/data/gpt_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "phalanx/data/gpt_test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kEod = 9;

class GptSamplesTest : public ::testing::Test {
 protected:
  GptDataset dataset(const std::vector<std::int32_t>& ids, const GptIndexOptions& options) {
    IndexedDatasetWriter writer(directory_ / "d", TokenType::kU16);
    writer.add_sequence(ids);
    writer.end_document();
    writer.commit();
    return GptDataset(std::make_shared<const IndexedDataset>(directory_ / "d"), {0, 1}, 100,
                      options);
  }
  // The columns of these samples; how many tokens count is what the mask says.
  testing::GptColumns batch(const GptDataset& data, const std::vector<std::int64_t>& indices,
                            const GptBatchOptions& options) {
    const GptSamples source(std::make_shared<const GptDataset>(data), options,
                            testing::gpt_schema(data.sequence_length()));
    Sample sample(source.schema());
    batch_ = HostBatch(source.schema(), std::ssize(indices));
    double unmasked = 0.0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      double count = -1.0;
      source.fetch(indices[i], sample, {&count, 1});
      batch_.put(static_cast<std::int64_t>(i), 100 + indices[i], sample);
      unmasked += count;
    }
    testing::GptColumns columns(batch_);
    EXPECT_EQ(unmasked, std::reduce(columns.loss_mask.begin(), columns.loss_mask.end(), 0.0));
    return columns;
  }
  TemporaryDirectory directory_;
  HostBatch batch_;
};

TEST_F(GptSamplesTest, RowsAreSequenceMajor) {
  const auto data = dataset({10, 11, 12, 13, 14, 15, 16},
                            {.sequence_length = 3, .order = DataOrder::kSequential});
  const testing::GptColumns columns = batch(data, {1, 0}, {});
  EXPECT_THAT(columns.tokens, ElementsAre(13, 10, 14, 11, 15, 12));
  EXPECT_THAT(columns.labels, ElementsAre(14, 11, 15, 12, 16, 13));
  EXPECT_THAT(columns.loss_mask, ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(columns.position, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(columns.sample, ElementsAre(101, 100, 101, 100, 101, 100));
  EXPECT_THAT(columns.document, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_F(GptSamplesTest, EndOfDocumentOptions) {
  const auto data = dataset({1, kEod, 2, 3, kEod, kEod, 4, 5},
                            {.sequence_length = 7, .order = DataOrder::kSequential});
  testing::GptColumns columns = batch(data, {0}, {.eod = kEod});
  EXPECT_THAT(columns.loss_mask, Each(1));
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(columns.document, Each(0));

  columns = batch(data, {0}, {.eod = kEod, .eod_mask_loss = true});
  EXPECT_THAT(columns.tokens, ElementsAre(1, kEod, 2, 3, kEod, kEod, 4));
  EXPECT_THAT(columns.loss_mask, ElementsAre(1, 0, 1, 1, 0, 0, 1));  // the label eod counts
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6));

  columns = batch(data, {0}, {.eod = kEod, .reset_position_ids = true});
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 1, 0, 1, 2, 0, 0));
  EXPECT_THAT(columns.position, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(columns.document, Each(0));

  columns = batch(data, {0}, {.eod = kEod, .reset_attention_mask = true});
  EXPECT_THAT(columns.document, ElementsAre(0, 0, 1, 1, 1, 2, 3));
  EXPECT_THAT(columns.loss_mask, Each(1));
}

// End-of-document is 0 here, as the padding is: padding must not look like the end of a document.
TEST_F(GptSamplesTest, PaddingCarriesNoLoss) {
  const auto data = dataset({1, 2, 3, 4, 0, 6}, {.sequence_length = 4,

                                                 .keep_partial_tail = true,
                                                 .order = DataOrder::kSequential});
  const testing::GptColumns columns =
      batch(data, {1}, {.eod = 0, .reset_position_ids = true, .reset_attention_mask = true});
  EXPECT_THAT(columns.tokens, ElementsAre(0, 6, 0, 0));
  EXPECT_THAT(columns.labels, ElementsAre(6, 0, 0, 0));
  EXPECT_THAT(columns.loss_mask, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(columns.document, ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(columns.position_ids, ElementsAre(0, 0, 1, 2));
}

TEST_F(GptSamplesTest, OptionsNeedAnEndOfDocumentToken) {
  const auto data = dataset({1, 2, 3}, {.sequence_length = 2});
  const auto refused = [&](const GptBatchOptions& options) {
    return error_of(ErrorCode::kConfiguration, [&] {
      const GptSamples samples(std::make_shared<const GptDataset>(data), options,
                               testing::gpt_schema(2));
    });
  };
  EXPECT_THAT(refused({.eod_mask_loss = true}), HasSubstr("end-of-document"));
  EXPECT_THAT(refused({.reset_position_ids = true}), HasSubstr("end-of-document"));
  EXPECT_THAT(refused({.reset_attention_mask = true}), HasSubstr("end-of-document"));
}

}  // namespace
}  // namespace phalanx
