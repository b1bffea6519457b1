#pragma once
// The bytes of a tensor from those of the tensors it is made of, in pieces of about 1 MiB: straight
// from where they lie wherever they follow each other and have the wanted type.

#include <cstddef>
#include <functional>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/hugging_face/tensor_table.h"

namespace phalanx::hugging_face {

// A whole tensor, row-major and little-endian, not aligned to its elements. Floating-point.
struct StoredTensor {
  DType dtype = DType::kF32;
  std::span<const std::byte> bytes;
};

using ByteVisitor = std::function<void(std::span<const std::byte>)>;

// Our tensor of a row; `parts[i]` is its row.parts[i]. Values become `dtype`, each the nearest.
void visit_ours(const TensorRow& row, std::span<const StoredTensor> parts, DType dtype,
                const ByteVisitor& visit);
// Their tensor from the one of ours that has it.
void visit_theirs(const TensorRow& row, const TensorPart& part, const StoredTensor& ours,
                  DType dtype, const ByteVisitor& visit);

}  // namespace phalanx::hugging_face
