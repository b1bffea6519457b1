#include "phalanx/model/batch_binding.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

std::vector<Tensor> columns_of(const BatchSchema& schema, std::int64_t samples, Arena& arena) {
  std::vector<Tensor> columns;
  for (const BatchColumn& column : schema.columns()) {
    columns.push_back(arena.allocate(column.dtype, {column.extents[0], samples}));
  }
  return columns;
}

TEST(BatchBinding, FindsTheCoordinatesOfRows) {
  const BatchSchema schema({{.name = "tokens", .dtype = DType::kI32, .extents = {4}},
                            {.name = "position", .dtype = DType::kI32, .extents = {4}},
                            {.name = "document", .dtype = DType::kI32, .extents = {4}},
                            {.name = "sample", .dtype = DType::kI64, .extents = {4}}});
  Arena arena("batch", 1 << 12);
  const std::vector<Tensor> columns = columns_of(schema, 2, arena);
  const nn::Batch batch = bind_batch(schema, columns);
  const auto is = [&](const Tensor& tensor, std::string_view name) {
    return tensor.data() == columns[schema.index(name)].data();
  };
  EXPECT_TRUE(is(batch[schema.index("tokens")], "tokens"));
  EXPECT_TRUE(is(batch.rows[0].sample, "sample"));
  EXPECT_TRUE(is(batch.rows[0].position, "position"));
  EXPECT_TRUE(is(batch.rows[0].document, "document"));
  EXPECT_FALSE(has_decoder_rows(schema));
  const nn::BatchShapes shapes = batch_shapes(schema, 2, 2);
  EXPECT_EQ(shapes[nn::Sequence::kOnly].rows(), 8);
  EXPECT_EQ(shapes[nn::Sequence::kOnly].stream_rows(), 4);
  EXPECT_EQ(shapes[nn::Sequence::kDecoder].rows(), 0);
}

TEST(BatchBinding, TellsTheSequencesApart) {
  std::vector<BatchColumn> described;
  for (const auto& [prefix, extent] : {std::pair("", 6), std::pair("decoder_", 3)}) {
    const std::string name = prefix;
    described.push_back({.name = name + "sample", .dtype = DType::kI64, .extents = {extent}});
    described.push_back({.name = name + "position", .dtype = DType::kI32, .extents = {extent}});
    described.push_back({.name = name + "document", .dtype = DType::kI32, .extents = {extent}});
  }
  const BatchSchema schema(std::move(described));
  Arena arena("batch", 1 << 12);
  const std::vector<Tensor> columns = columns_of(schema, 2, arena);
  const nn::Batch batch = bind_batch(schema, columns);
  EXPECT_EQ(batch.rows[0].sample.data(), columns[schema.index("sample")].data());
  EXPECT_EQ(batch.rows[1].sample.data(), columns[schema.index("decoder_sample")].data());
  EXPECT_EQ(batch.rows[1].document.data(), columns[schema.index("decoder_document")].data());
  const nn::BatchShapes shapes = batch_shapes(schema, 2, 3);
  EXPECT_EQ(shapes[nn::Sequence::kEncoder].stream_sequence(), 2);
  EXPECT_EQ(shapes[nn::Sequence::kDecoder].stream_sequence(), 1);
}

}  // namespace
}  // namespace phalanx
