#pragma once
// For the tests of a GPT's samples: the schema of their columns.

#include <cstdint>

#include "phalanx/base/batch_schema.h"

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

}  // namespace phalanx::testing
