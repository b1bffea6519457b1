#pragma once
// The cost of an op that multiplies no matrices: the bytes that it moves, and of which type most of
// them are.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "phalanx/tensor/recorder.h"

namespace phalanx::ops {

class MovedBytes {
 public:
  // Of no type, as numbers beside tensors.
  MovedBytes(std::int64_t bytes) : bytes_(bytes) {}  // NOLINT(google-explicit-constructor)
  MovedBytes(DType dtype, std::int64_t bytes) : bytes_(bytes) { of(dtype) = bytes; }

  std::int64_t bytes() const { return bytes_; }
  // kF32 if there is nothing of any type; of as much of two the one that DType names first.
  DType main_dtype() const {
    const auto most = std::ranges::max_element(of_type_);
    return *most == 0 ? DType::kF32 : static_cast<DType>(most - of_type_.begin());
  }

  friend MovedBytes operator+(MovedBytes a, const MovedBytes& b) {
    a.bytes_ += b.bytes_;
    for (std::size_t i = 0; i < kTypes; ++i) a.of_type_[i] += b.of_type_[i];
    return a;
  }

 private:
  static constexpr std::size_t kTypes = static_cast<std::size_t>(DType::kU8) + 1;

  std::int64_t& of(DType dtype) { return of_type_[static_cast<std::size_t>(dtype)]; }

  std::int64_t bytes_;
  std::array<std::int64_t, kTypes> of_type_ = {};
};

// Of the operands that are present.
template <typename... Operands>
MovedBytes moved(const Operands&... tensors) {
  return (MovedBytes(tensors.dtype, tensors.defined() ? tensors.bytes() : 0) + ...);
}

inline OpCost memory_cost(std::string_view name, const MovedBytes& read,
                          const MovedBytes& written) {
  return {.name = name,
          .bytes_read = read.bytes(),
          .bytes_written = written.bytes(),
          .dtype = (read + written).main_dtype()};
}

}  // namespace phalanx::ops
