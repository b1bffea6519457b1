#pragma once
// Types of the kernels' language, and the word before functions of a device.

#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define PHALANX_DEVICE __device__ __forceinline__
#else
#define PHALANX_DEVICE inline
#endif

namespace phalanx::cuda {

// Storage types; arithmetic is in float.
struct bf16 {  // NOLINT(readability-identifier-naming)
  std::uint16_t bits;
};
struct fp16 {  // NOLINT(readability-identifier-naming)
  std::uint16_t bits;
};

// Elements that one load or store moves; their address is a multiple of their size (16 at most).
template <typename T, int kSize>
struct alignas(sizeof(T) * kSize < 16 ? sizeof(T) * kSize : 16) Pack {
  T at[kSize];
};

struct Words4 {
  std::uint32_t at[4];
};

}  // namespace phalanx::cuda
