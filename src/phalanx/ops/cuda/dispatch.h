#pragma once
// From element types to instances of kernels. For the .cc files of this folder.

#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls use(TypeTag<T>()) with the storage type.
template <typename Use>
void with_storage(std::string_view op, DType type, const Use& use) {
  switch (type) {
    case DType::kF32:
      return use(TypeTag<float>());
    case DType::kBF16:
      return use(TypeTag<bf16>());
    case DType::kF16:
      return use(TypeTag<fp16>());
    default:
      throw InternalError("{}: the CUDA kernels have no operands of {}", op, name_of(type));
  }
}

// Calls use(TypeTag<T>(), TypeTag<Stream>()): the stream has the storage type, or is f32.
template <typename Use>
void with_stream(std::string_view op, DType type, DType stream, const Use& use) {
  PHALANX_CHECK(stream == type || stream == DType::kF32, "{}: {} beside {}", op, name_of(stream),
                name_of(type));
  with_storage(op, type, [&](auto tag) {
    if (stream == type) {
      use(tag, tag);
    } else {
      use(tag, TypeTag<float>());
    }
  });
}

template <typename T>
T* as(const TypedAddress& operand) {
  return reinterpret_cast<T*>(operand.at);
}

// Whether all addresses are multiples of 16, and so are rows of `columns` elements of each type.
template <typename... Operands>
bool can_pack(std::int64_t columns, const Operands&... operands) {
  const auto fits = [columns](const TypedAddress& operand) {
    return reinterpret_cast<std::uintptr_t>(operand.at) % 16 == 0 &&
           (!operand || columns * size_of(operand.type) % 16 == 0);
  };
  return (fits(operands) && ...);
}

// Whether the rows begin at multiples of 16 bytes.
inline bool can_pack(const TypedRows& rows) { return can_pack(rows.stride, rows.data); }

}  // namespace phalanx::cuda
