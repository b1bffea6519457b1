#pragma once
// Streams the bytes of a tensor from those of the tensors that it is made of, in pieces of about 1
// MiB.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/hugging_face/tensor_table.h"

namespace phalanx::hugging_face {

// A whole floating-point tensor, row-major and little-endian, not aligned to its elements.
struct StoredTensor {
  DType dtype = DType::kF32;
  std::span<const std::byte> bytes;
};

using ByteVisitor = std::function<void(std::span<const std::byte>)>;

// Streams our tensor of a row; `parts[i]` is the tensor of row.parts[i]. Values are converted to
// `dtype`, each to the nearest.
void visit_ours(const TensorRow& row, std::span<const StoredTensor> parts, DType dtype,
                const ByteVisitor& visit);
// Our tensor of a row, seen as [rows, columns]; a vector has one column.
struct OurTensor {
  DType dtype = DType::kF32;
  // Fills `to` with the columns [column, column + columns) of rows [row, row + rows), row-major.
  std::function<void(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                     std::span<std::byte> to)>
      read;
};
// Streams their tensor from our tensor that holds it. In memory are at most some ten MiB of it.
void visit_theirs(const TensorRow& row, const TensorPart& part, const OurTensor& ours, DType dtype,
                  const ByteVisitor& visit);

}  // namespace phalanx::hugging_face
