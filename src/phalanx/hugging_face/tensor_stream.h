#pragma once
// Streams the bytes of a tensor from those of the tensors that it is made of, in pieces of about 1
// MiB. Bytes that are contiguous and of the wanted type are not copied.

#include <cstddef>
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
// Streams their tensor from our tensor that holds it.
void visit_theirs(const TensorRow& row, const TensorPart& part, const StoredTensor& ours,
                  DType dtype, const ByteVisitor& visit);

}  // namespace phalanx::hugging_face
