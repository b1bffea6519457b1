#include "phalanx/data/gpt_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr std::int32_t kEod = 9;

class GptBatchTest : public ::testing::Test {
 protected:
  GptDataset dataset(const std::vector<std::int32_t>& ids, const GptIndexOptions& options) {
    IndexedDatasetWriter writer(directory_ / "d", TokenType::kU16);
    writer.add_sequence(ids);
    writer.end_document();
    writer.commit();
    return GptDataset(std::make_shared<const IndexedDataset>(directory_ / "d"), {0, 1}, 100,
                      options);
  }
  TemporaryDirectory directory_;
  GptBatch batch_;
};

TEST_F(GptBatchTest, RowsAreSequenceMajor) {
  const auto data = dataset({10, 11, 12, 13, 14, 15, 16},
                            {.sequence_length = 3, .order = DataOrder::kSequential});
  make_gpt_batch(data, std::vector<SampleId>{{7, 1}, {3, 0}}, {}, batch_);
  EXPECT_EQ(batch_.sequence_length, 3);
  EXPECT_EQ(batch_.batch_size, 2);
  EXPECT_THAT(batch_.tokens, ElementsAre(13, 10, 14, 11, 15, 12));
  EXPECT_THAT(batch_.labels, ElementsAre(14, 11, 15, 12, 16, 13));
  EXPECT_THAT(batch_.loss_mask, ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch_.position_ids, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(batch_.position, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(batch_.sample, ElementsAre(7, 3, 7, 3, 7, 3));
  EXPECT_THAT(batch_.document, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_F(GptBatchTest, EndOfDocumentOptions) {
  const auto data = dataset({1, kEod, 2, 3, kEod, kEod, 4, 5},
                            {.sequence_length = 7, .order = DataOrder::kSequential});
  const std::vector<SampleId> first{{0, 0}};
  make_gpt_batch(data, first, {.eod = kEod}, batch_);
  EXPECT_THAT(batch_.loss_mask, Each(1));
  EXPECT_THAT(batch_.position_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch_.document, Each(0));

  make_gpt_batch(data, first, {.eod = kEod, .eod_mask_loss = true}, batch_);
  EXPECT_THAT(batch_.tokens, ElementsAre(1, kEod, 2, 3, kEod, kEod, 4));
  EXPECT_THAT(batch_.loss_mask, ElementsAre(1, 0, 1, 1, 0, 0, 1));  // the label eod counts
  EXPECT_THAT(batch_.position_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6));

  make_gpt_batch(data, first, {.eod = kEod, .reset_position_ids = true}, batch_);
  EXPECT_THAT(batch_.position_ids, ElementsAre(0, 1, 0, 1, 2, 0, 0));
  EXPECT_THAT(batch_.position, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch_.document, Each(0));

  make_gpt_batch(data, first, {.eod = kEod, .reset_attention_mask = true}, batch_);
  EXPECT_THAT(batch_.document, ElementsAre(0, 0, 1, 1, 1, 2, 3));
  EXPECT_THAT(batch_.loss_mask, Each(1));
}

// End-of-document is 0 here, as the padding is: padding must not look like the end of a document.
TEST_F(GptBatchTest, PaddingCarriesNoLoss) {
  const auto data = dataset({1, 2, 3, 4, 0, 6}, {.sequence_length = 4,

                                                 .keep_partial_tail = true,
                                                 .order = DataOrder::kSequential});
  make_gpt_batch(data, std::vector<SampleId>{{0, 1}},
                 {.eod = 0, .reset_position_ids = true, .reset_attention_mask = true}, batch_);
  EXPECT_THAT(batch_.tokens, ElementsAre(0, 6, 0, 0));
  EXPECT_THAT(batch_.labels, ElementsAre(6, 0, 0, 0));
  EXPECT_THAT(batch_.loss_mask, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(batch_.document, ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(batch_.position_ids, ElementsAre(0, 0, 1, 2));
}

TEST_F(GptBatchTest, OptionsNeedAnEndOfDocumentToken) {
  const auto data = dataset({1, 2, 3}, {.sequence_length = 2});
  EXPECT_THAT(
      error_of(
          ErrorCode::kConfiguration,
          [&] {
            make_gpt_batch(data, std::vector<SampleId>{{0, 0}}, {.eod_mask_loss = true}, batch_);
          }),
      HasSubstr("end-of-document"));
}

}  // namespace
}  // namespace phalanx
