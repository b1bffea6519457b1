#pragma once
// A tensor is a typed view on an arena: it owns nothing and is copied freely. Strides are in
// elements. Activations are [s, b, h] (sequence, batch, feature); matrices are [rows, columns],
// weights [out, in].

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"
#include "phalanx/base/shape.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

struct Tensor {
  Arena* arena = nullptr;   // null: an absent (optional) tensor
  std::int64_t offset = 0;  // bytes from the arena's base
  MemorySpace space = MemorySpace::kNone;
  DType dtype = DType::kF32;
  Shape shape;
  Shape strides;  // elements

  bool defined() const { return arena != nullptr; }
  explicit operator bool() const { return defined(); }
  std::int64_t count() const { return shape.count(); }
  std::int64_t bytes() const { return count() * size_of(dtype); }
  bool contiguous() const;

  // Null on a planning arena. What kernels of the tensor's own device follow.
  std::byte* address() const { return arena->base() == nullptr ? nullptr : arena->base() + offset; }
  // The same, for this process: InternalError for memory that only a device reads.
  std::byte* data() const {
    PHALANX_CHECK(space != MemorySpace::kDevice, "the tensor lies in the memory of a device");
    return address();
  }
  // The elements as T, which must be the dtype.
  template <typename T>
  T* as() const {
    PHALANX_CHECK(kDTypeOf<T> == dtype, "the tensor holds {}", name_of(dtype));
    return reinterpret_cast<T*>(data());
  }
  // All elements of a contiguous tensor.
  template <typename T>
  std::span<T> span() const {
    PHALANX_CHECK(contiguous(), "a strided tensor {} has no span", shape.to_string());
    return {as<T>(), static_cast<std::size_t>(count())};
  }

  // Views.
  Tensor reshape(const Shape& new_shape) const;  // contiguous tensors only
  Tensor slice(int dim, std::int64_t begin, std::int64_t extent) const;
  Tensor select(int dim, std::int64_t index) const;  // drops the dimension
  // [s, b, h] -> [s * b, h]: all but the last dimension become rows.
  Tensor rows() const;
};

using Tensors = std::span<const Tensor>;

// A dense row-major tensor at a byte offset of an arena; does not mark the bytes as used (see
// Arena::place).
Tensor dense_tensor(Arena& arena, std::int64_t offset, DType dtype, const Shape& shape);

}  // namespace phalanx
