#include "phalanx/base/text_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

// The widest columns come first, without gaps.
TEST(TextBatches, LaysOutEveryColumn) {
  const BatchSchema schema = gpt_batch_schema(5);
  ASSERT_EQ(schema.columns().size(), 7U);
  EXPECT_EQ(schema.columns().front().name, "sample");
  EXPECT_EQ(schema.bytes(3), 5 * 3 * (8 + 6 * 4));
  std::int64_t end = 0;
  for (std::size_t i = 0; i < schema.columns().size(); ++i) {
    EXPECT_EQ(schema.offset(i, 3), end);
    EXPECT_EQ(schema.columns()[i].extents, Shape({5}));
    end += schema.bytes_of(i, 3);
  }
}

TEST(TextBatches, OfAContextParallelRank) {
  EXPECT_EQ(context_schema(gpt_batch_schema(12), 1), gpt_batch_schema(12));
  const BatchSchema schema = context_schema(gpt_batch_schema(12), 3);
  ASSERT_EQ(schema.columns().size(), 7U);
  for (const BatchColumn& column : schema.columns()) {
    const bool has_all = column.name == "position" || column.name == "document";
    EXPECT_EQ(column.extents, Shape({has_all ? 12 : 4})) << column.name;
    EXPECT_EQ(has_all_context_rows(column), has_all) << column.name;
  }
}

TEST(TextBatches, OnlyOneSequenceIsCutByContext) {
  const auto refusal = [](const BatchSchema& schema) {
    return error_of(ErrorCode::kInternal, [&] { context_schema(schema, 2); });
  };
  EXPECT_THAT(refusal(bert_batch_schema(8)), testing::HasSubstr("column is_random"));
  EXPECT_THAT(refusal(t5_batch_schema(8, 4)), testing::HasSubstr("column decoder_sample"));
  EXPECT_THAT(refusal(t5_batch_schema(8, 8)), testing::HasSubstr("column decoder_sample"));
  EXPECT_THAT(refusal(gpt_batch_schema(9)), testing::HasSubstr("9 rows for 2"));
}

}  // namespace
}  // namespace phalanx
