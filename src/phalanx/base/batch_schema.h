#pragma once
// What a microbatch is made of: named columns, declared by a model family. The schema drives how a
// batch lies in memory on the host, its slot on the device, its upload and its broadcast; who moves
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
  Shape extents;              // of one sample; the samples of a batch are one more, last dimension
};

// Columns lie one behind the other, the widest element type first, so that each is aligned.
class BatchSchema {
 public:
  BatchSchema() = default;
  // Sorts the columns by width, otherwise in the order given. Names are unique (PHALANX_CHECK).
  explicit BatchSchema(std::vector<BatchColumn> columns);

  std::span<const BatchColumn> columns() const { return columns_; }
  // PHALANX_CHECK where there is none of that name.
  std::size_t index(std::string_view name) const;
  // Bytes of a column, and of all columns, of `samples` samples; where a column begins.
  std::int64_t bytes_of(std::size_t column, std::int64_t samples) const;
  std::int64_t bytes(std::int64_t samples) const;
  std::int64_t offset(std::size_t column, std::int64_t samples) const;

  friend bool operator==(const BatchSchema& a, const BatchSchema& b);

 private:
  std::vector<BatchColumn> columns_;
};

}  // namespace phalanx
