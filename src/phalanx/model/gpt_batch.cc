#include "phalanx/model/gpt_batch.h"

#include <string_view>

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

nn::Batch gpt_batch(const BatchSchema& schema, std::span<const Tensor> columns) {
  PHALANX_CHECK(columns.size() == schema.columns().size(), "{} tensors for {} columns",
                columns.size(), schema.columns().size());
  const auto column = [&](std::string_view name) { return columns[schema.index(name)]; };
  return {.tokens = column("tokens"),
          .position_ids = column("position_ids"),
          .labels = column("labels"),
          .loss_mask = column("loss_mask"),
          .rows = {.sample = column("sample"),
                   .position = column("position"),
                   .document = column("document")}};
}

}  // namespace phalanx
