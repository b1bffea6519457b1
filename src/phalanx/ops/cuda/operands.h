#pragma once
// From tensors in device memory to what the functions of this folder take.

#include "phalanx/ops/cuda/segments.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::cuda {

// Null for a tensor that is absent.
inline TypedAddress address_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {tensor.address(), tensor.dtype};
}

// The same where one type alone is possible.
template <typename T>
T* address_as(const Tensor& tensor) {
  if (!tensor) return nullptr;
  PHALANX_CHECK(kDTypeOf<T> == tensor.dtype, "the tensor holds {}", name_of(tensor.dtype));
  return reinterpret_cast<T*>(tensor.address());
}

// A matrix whose rows may be apart.
inline TypedRows rows_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {address_of(tensor), tensor.strides[0]};
}

inline DeviceSegments segments_of(const ops::SegmentTable& table, std::int64_t first) {
  return {table.host, table.device.address(), first};
}

}  // namespace phalanx::cuda
