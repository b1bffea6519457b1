#pragma once
// Conversions of fp16 on the host. Read through simt_emulated.h.

#include <bit>

#include "phalanx/cuda/simt_types.h"

namespace phalanx::cuda {

inline float float_of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of_float(float value) { return std::bit_cast<std::uint32_t>(value); }

// base/dtype.h's conversions, with the device's NaN.
inline fp16 fp16_of(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {0x7fff};
  if (magnitude >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x33000000U) return {sign};
  std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
  int exponent = static_cast<int>(magnitude >> 23) - 127 + 15;
  // Bits that are lost: 13, or more below the smallest normal number.
  const int lost = exponent > 0 ? 13 : 14 - exponent;
  const std::uint32_t half = 1U << (lost - 1);
  const std::uint32_t rest = mantissa & ((1U << lost) - 1);
  mantissa >>= lost;
  if (rest > half || (rest == half && (mantissa & 1U) != 0)) ++mantissa;
  exponent = exponent > 0 ? exponent - 1 : 0;
  // The hidden bit, and a carry beyond it, raise the exponent.
  return {
      static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent) << 10) + mantissa))};
}

inline float to_float(fp16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = value.bits & 0x3ffU;
  if (exponent == 0x1f) {
    return float_of_bits(mantissa != 0 ? 0x7fffffffU : sign | 0x7f800000U);
  }
  if (exponent != 0) return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return float_of_bits(sign);
  int shift = 0;
  std::uint32_t normal = mantissa;
  while ((normal & 0x400U) == 0) {
    normal <<= 1;
    ++shift;
  }
  return float_of_bits(sign | (static_cast<std::uint32_t>(113 - shift) << 23) |
                       ((normal & 0x3ffU) << 13));
}

}  // namespace phalanx::cuda
