#pragma once
// For the tests of a GPT's samples: their columns.

#include <cstdint>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/host_batch.h"

namespace phalanx::testing {

inline BatchSchema gpt_schema(std::int64_t sequence) {
  const Shape extents{sequence};
  return BatchSchema({{.name = "tokens", .dtype = DType::kI32, .extents = extents},
                      {.name = "labels", .dtype = DType::kI32, .extents = extents},
                      {.name = "loss_mask", .dtype = DType::kF32, .extents = extents},
                      {.name = "position_ids", .dtype = DType::kI32, .extents = extents},
                      {.name = "sample", .dtype = DType::kI64, .extents = extents},
                      {.name = "position", .dtype = DType::kI32, .extents = extents},
                      {.name = "document", .dtype = DType::kI32, .extents = extents}});
}

// The columns of a GPT's batch; all [s, b].
struct GptColumns {
  explicit GptColumns(HostBatch& batch)
      : tokens(batch.column<std::int32_t>("tokens")),
        labels(batch.column<std::int32_t>("labels")),
        loss_mask(batch.column<float>("loss_mask")),
        position_ids(batch.column<std::int32_t>("position_ids")),
        sample(batch.column<std::int64_t>("sample")),
        position(batch.column<std::int32_t>("position")),
        document(batch.column<std::int32_t>("document")) {}

  std::span<std::int32_t> tokens, labels;
  std::span<float> loss_mask;
  std::span<std::int32_t> position_ids;
  std::span<std::int64_t> sample;
  std::span<std::int32_t> position, document;
};

}  // namespace phalanx::testing
