#pragma once
// What the functions of this folder take: addresses of device memory with their element type, and
// where to enqueue. They check types; shapes are the caller's.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"
#include "phalanx/cuda/driver.h"
#include "phalanx/cuda/lt.h"

namespace phalanx::cuda {

class UploadRing;

struct CudaContext {
  int device = 0;
  Queue queue;
  // Of this queue alone, aligned to 256; the next function in the queue may overwrite it.
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
  Lt* lt = nullptr;               // for products
  UploadRing* uploads = nullptr;  // for numbers beside the operands
  // What kernels find wrong in data (fault-inl.h): kFaultWords words; null: nobody asks.
  std::uint64_t* faults = nullptr;
  std::uint32_t op = 0;  // that a fault is reported of: its number in ops::OpList
};

struct TypedAddress {
  std::byte* at = nullptr;  // null: an operand that is absent
  DType type = DType::kF32;

  explicit operator bool() const { return at != nullptr; }
};

// Rows of a matrix, each of which is dense.
struct TypedRows {
  TypedAddress data;
  std::int64_t stride = 0;  // elements from a row to the next

  explicit operator bool() const { return static_cast<bool>(data); }
};

// Scratch memory of at least `bytes`; InternalError if the context has less.
std::byte* take_scratch(const CudaContext& context, std::string_view op, std::int64_t bytes);

}  // namespace phalanx::cuda
