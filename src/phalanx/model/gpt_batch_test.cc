#include "phalanx/model/gpt_batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

// The widest columns come first, and none has a gap behind it.
TEST(GptBatchSchema, LaysOutEveryColumn) {
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

TEST(GptBatchSchema, NamesTheTensors) {
  const BatchSchema schema = gpt_batch_schema(4);
  Arena arena("batch", 1 << 12);
  std::vector<Tensor> columns;
  for (const BatchColumn& column : schema.columns()) {
    columns.push_back(arena.allocate(column.dtype, {4, 2}));
  }
  const nn::Batch batch = gpt_batch(schema, columns);
  const auto is = [&](const Tensor& tensor, std::string_view name) {
    return tensor.data() == columns[schema.index(name)].data();
  };
  EXPECT_TRUE(is(batch.tokens, "tokens"));
  EXPECT_TRUE(is(batch.labels, "labels"));
  EXPECT_TRUE(is(batch.loss_mask, "loss_mask"));
  EXPECT_TRUE(is(batch.position_ids, "position_ids"));
  EXPECT_TRUE(is(batch.rows.sample, "sample"));
  EXPECT_TRUE(is(batch.rows.position, "position"));
  EXPECT_TRUE(is(batch.rows.document, "document"));
  EXPECT_EQ(batch.loss_mask.dtype, DType::kF32);
}

}  // namespace
}  // namespace phalanx
