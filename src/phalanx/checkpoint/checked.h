#pragma once
// Arithmetic with sizes that come from files: it tells an overflow.

#include <cstdint>
#include <optional>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

// The bytes of a dense tensor; empty if an extent is negative or the product overflows int64.
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
