#include "phalanx/model/batch_binding.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kDecoder = "decoder_";

std::size_t coordinate(const BatchSchema& schema, std::string_view prefix, std::string_view name) {
  return schema.index(std::string(prefix) + std::string(name));
}

// This rank's rows.
RowCoordinates rows_of(const BatchSchema& schema, std::string_view prefix,
                       const std::vector<Tensor>& columns, const RowPattern& pattern,
                       int context_rank) {
  const Tensor& sample = columns[coordinate(schema, prefix, "sample")];
  const std::int64_t rows = sample.shape[0];
  const auto own = [&](std::string_view name) {
    return columns[coordinate(schema, prefix, name)].slice(0, context_rank * rows, rows);
  };
  return {.sample = sample,
          .position = own("position"),
          .document = own("document"),
          .pattern = pattern};
}

nn::BatchShape shape_of(const BatchSchema& schema, std::string_view prefix,
                        std::int64_t micro_batch, std::int64_t sequence_shards) {
  const auto rows = [&](std::string_view name) {
    return schema.columns()[coordinate(schema, prefix, name)].extents[0];
  };
  return {.sequence = rows("sample"),
          .micro_batch = micro_batch,
          .sequence_shards = sequence_shards,
          .context_shards = rows("position") / rows("sample")};
}

}  // namespace

bool has_decoder_rows(const BatchSchema& schema) {
  return std::ranges::any_of(schema.columns(), [](const BatchColumn& column) {
    return column.name == std::string(kDecoder) + "position";
  });
}

nn::BatchShapes batch_shapes(const BatchSchema& schema, std::int64_t micro_batch,
                             std::int64_t sequence_shards) {
  const nn::BatchShape first = shape_of(schema, "", micro_batch, sequence_shards);
  if (!has_decoder_rows(schema)) return first;
  return {first, shape_of(schema, kDecoder, micro_batch, sequence_shards)};
}

nn::Batch bind_batch(const BatchSchema& schema, std::vector<Tensor> columns,
                     const nn::RowPatterns& patterns, int context_rank) {
  PHALANX_CHECK(columns.size() == schema.columns().size(), "{} tensors for {} columns",
                columns.size(), schema.columns().size());
  nn::Batch batch{.columns = {}, .rows = {rows_of(schema, "", columns, patterns[0], context_rank)}};
  if (has_decoder_rows(schema)) {
    batch.rows[1] = rows_of(schema, kDecoder, columns, patterns[1], 0);
  }
  const Tensor& position = columns[schema.index("position")];
  if (position.shape[0] > batch.rows[0].sample.shape[0]) {
    batch.all_rows = {.sample = {},
                      .position = position,
                      .document = columns[schema.index("document")],
                      .pattern = {.one_document = patterns[0].one_document}};
  }
  batch.columns = std::move(columns);
  return batch;
}

}  // namespace phalanx
