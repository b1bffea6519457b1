#include "phalanx/base/text_batches.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace phalanx
