#pragma once
// Sizes that come from files: arithmetic that says when it does not fit.

#include <cstdint>
#include <optional>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

// Bytes of a dense tensor whose elements have so many; empty where an extent is negative or the
// product leaves int64.
inline std::optional<std::int64_t> checked_bytes(std::int64_t element, const Shape& shape) {
  std::int64_t bytes = element;
  bool fits = true;
  bool empty = false;
  for (const auto extent : shape) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(bytes, extent == 0 ? 1 : extent, &bytes);
    empty = empty || extent == 0;
  }
  if (!fits) return std::nullopt;
  return empty ? 0 : bytes;
}
inline std::optional<std::int64_t> checked_bytes(DType dtype, const Shape& shape) {
  return checked_bytes(size_of(dtype), shape);
}

}  // namespace phalanx
