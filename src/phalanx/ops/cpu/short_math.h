#pragma once
// Constants of the arithmetic of activations, for kernels by Highway and by intrinsics. "Short" is
// for results that are stored in 16 bits: a relative error of 5e-7, without a division.

#include <cstdint>
#include <numbers>

namespace phalanx::cpu {

// Adding 1.5 2^23 leaves the nearest integer in a float's low bits.
inline constexpr float kRoundingShift = 12582912.0F;

// 2^r for |r| <= 1/2, a minimax polynomial of degree 5: its relative error is 1.1e-7.
inline constexpr float kShortPower[6] = {1.0F,          0.693147004F,   0.240222424F,
                                         0.0555073358F, 0.00967151299F, 0.00132647273F};

// This less the bits of a positive normal float are those of its reciprocal, to e = 5.1 %. A step
// r (1 + e + e^2) leaves e^3, Newton's method then e^6: less than a float's rounding.
inline constexpr std::uint32_t kReciprocalBits = 0x7EF31000U;

// gelu(x) = x / (1 + exp(-2u)) with 2u = x (kLinear + kCubic x^2); exponents are limited.
inline constexpr double kTanhGeluLinear = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double kTanhGeluCubic = 0.044715 * kTanhGeluLinear;
inline constexpr double kActivationBound = 80.0;

}  // namespace phalanx::cpu
