#pragma once
// The arithmetic of AMX's instruction in plain C++, for the twins of the family `amx2`
// (amx_tiles.h, amx_attention_kernel.h).

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace phalanx::cpu {

// Subnormal numbers are zeros with their sign.
inline float twin_flushed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7f800000U) == 0 ? std::bit_cast<float>(bits & 0x80000000U) : x;
}
inline float twin_add(float a, float b) { return twin_flushed(twin_flushed(a) + twin_flushed(b)); }
inline float twin_multiply_add(float a, float b, float sum) {
  return twin_flushed(std::fma(a, b, sum));
}

inline constexpr std::int64_t kTwinSide = 16;  // rows and columns of a register of sums

// sums[16][16] += left[16 rows of 32] right[16 pairs of depth][16 columns of 2], as tdpbf16ps.
// Strides of operands are in bytes.
struct RegisterProduct {
  float* sums;
  std::int64_t sums_stride;  // floats
  const std::byte* left;
  std::int64_t left_stride;
  const std::byte* right;
  std::int64_t right_stride;
};
void multiply_registers(const RegisterProduct& product);

}  // namespace phalanx::cpu
