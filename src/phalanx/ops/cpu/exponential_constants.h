#pragma once
// Constants of exponentials and of GeLU by tanh, for kernels by Highway and by intrinsics.

#include <numbers>

namespace phalanx::cpu {

// exp(x) = 2^n exp(r) with x = n ln 2 + r and |r| <= ln(2) / 2; exp(r) = 1 + r + r^2 q(r) with q of
// degree 4, interpolated at Chebyshev points (error 1e-8).
inline constexpr float kExponentialTerms[5] = {0.500000001F, 0.16666577F, 0.0416664649F,
                                               0.00836318154F, 0.00139336525F};
inline constexpr float kLog2OfE = 1.44269504F;
// Their sum is ln 2; n times the first is exact.
inline constexpr float kLn2Parts[2] = {0.693359375F, -2.12194440e-4F};
// Adding 1.5 2^23 leaves the nearest integer in the low bits.
inline constexpr float kRoundingShift = 12582912.0F;

// gelu(x) = x / (1 + exp(-2u)) with 2u = x (linear + cubic x^2); exponents are limited.
inline constexpr double kTanhGeluLinear = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double kTanhGeluCubic = 0.044715 * kTanhGeluLinear;
inline constexpr float kTanhGeluBound = 80.0F;

}  // namespace phalanx::cpu
