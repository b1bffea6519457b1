#include "phalanx/base/text_batches.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

BatchSchema gpt_batch_schema(std::int64_t sequence) {
  const Shape extents{sequence};
  return BatchSchema({{.name = "sample", .dtype = DType::kI64, .extents = extents},
                      {.name = "loss_mask", .dtype = DType::kF32, .extents = extents},
                      {.name = "tokens", .dtype = DType::kI32, .extents = extents},
                      {.name = "position_ids", .dtype = DType::kI32, .extents = extents},
                      {.name = "labels", .dtype = DType::kI32, .extents = extents},
                      {.name = "position", .dtype = DType::kI32, .extents = extents},
                      {.name = "document", .dtype = DType::kI32, .extents = extents}});
}

BatchSchema bert_batch_schema(std::int64_t sequence) {
  const Shape extents{sequence};
  return BatchSchema({{.name = "sample", .dtype = DType::kI64, .extents = extents},
                      {.name = "loss_mask", .dtype = DType::kF32, .extents = extents},
                      {.name = "tokens", .dtype = DType::kI32, .extents = extents},
                      {.name = "position_ids", .dtype = DType::kI32, .extents = extents},
                      {.name = "types", .dtype = DType::kI32, .extents = extents},
                      {.name = "labels", .dtype = DType::kI32, .extents = extents},
                      {.name = "position", .dtype = DType::kI32, .extents = extents},
                      {.name = "document", .dtype = DType::kI32, .extents = extents},
                      {.name = "is_random", .dtype = DType::kI32, .extents = Shape{1}}});
}

BatchSchema t5_batch_schema(std::int64_t sequence, std::int64_t decoder_sequence) {
  const Shape encoder{sequence};
  const Shape decoder{decoder_sequence};
  return BatchSchema({{.name = "sample", .dtype = DType::kI64, .extents = encoder},
                      {.name = "decoder_sample", .dtype = DType::kI64, .extents = decoder},
                      {.name = "loss_mask", .dtype = DType::kF32, .extents = decoder},
                      {.name = "tokens", .dtype = DType::kI32, .extents = encoder},
                      {.name = "position_ids", .dtype = DType::kI32, .extents = encoder},
                      {.name = "position", .dtype = DType::kI32, .extents = encoder},
                      {.name = "document", .dtype = DType::kI32, .extents = encoder},
                      {.name = "decoder_tokens", .dtype = DType::kI32, .extents = decoder},
                      {.name = "decoder_position_ids", .dtype = DType::kI32, .extents = decoder},
                      {.name = "labels", .dtype = DType::kI32, .extents = decoder},
                      {.name = "decoder_position", .dtype = DType::kI32, .extents = decoder},
                      {.name = "decoder_document", .dtype = DType::kI32, .extents = decoder}});
}

bool has_all_context_rows(const BatchColumn& column) {
  return column.name == "position" || column.name == "document";
}

BatchSchema context_schema(const BatchSchema& whole, int ranks) {
  if (ranks == 1) return whole;
  const Shape sequence = whole.columns()[whole.index("position")].extents;
  PHALANX_CHECK(sequence.rank() == 1 && sequence.count() % ranks == 0,
                "samples of {} rows for {} context-parallel ranks", sequence.count(), ranks);
  std::vector<BatchColumn> columns(whole.columns().begin(), whole.columns().end());
  for (BatchColumn& column : columns) {
    PHALANX_CHECK(column.extents == sequence && !column.name.starts_with("decoder_"),
                  "column {} of samples that are cut: they must be one sequence", column.name);
    if (!has_all_context_rows(column)) column.extents = {sequence.count() / ranks};
  }
  return BatchSchema(std::move(columns));
}

}  // namespace phalanx
