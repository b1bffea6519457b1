#pragma once
// The named columns of a microbatch, declared by a model family. The schema determines the layout
// of a batch on the host, its slot on the device, its upload and its broadcast, so code that moves
// batches knows no column by name.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

struct BatchColumn {
  std::string name;
  DType dtype = DType::kI32;  // i64, i32, f32, u8
  Shape extents;              // of one sample; a batch adds the samples as last dimension
};

// Columns are adjacent, the widest element type first, so that each is aligned.
class BatchSchema {
 public:
  BatchSchema() = default;
  // Sorts the columns by width, stably. Names are unique (PHALANX_CHECK).
  explicit BatchSchema(std::vector<BatchColumn> columns);

  std::span<const BatchColumn> columns() const { return columns_; }
  // Fails a PHALANX_CHECK if no column has the name.
  std::size_t index(std::string_view name) const;
  // Bytes of a column and of all columns for `samples` samples; the offset of a column.
  std::int64_t bytes_of(std::size_t column, std::int64_t samples) const;
  std::int64_t bytes(std::int64_t samples) const;
  std::int64_t offset(std::size_t column, std::int64_t samples) const;

  friend bool operator==(const BatchSchema& a, const BatchSchema& b);

 private:
  std::vector<BatchColumn> columns_;
};

}  // namespace phalanx
