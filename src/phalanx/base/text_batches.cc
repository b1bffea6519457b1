#include "phalanx/base/text_batches.h"

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

}  // namespace phalanx
