// exp for kernels that need it for every element. Included once per target.

#include <numbers>
#include <type_traits>

#include "phalanx/ops/cpu/short_math.h"
#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_EXPONENTIAL_INL_H_
#undef PHALANX_OPS_CPU_EXPONENTIAL_INL_H_
#else
#define PHALANX_OPS_CPU_EXPONENTIAL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Between these limits the result is a normal number.
inline constexpr float kLowestExponent = -87.0F;
inline constexpr float kHighestExponent = 88.0F;

// exp(x) for x within these limits, to 1e-7 relative, in half the time of Highway's Exp, which has
// no limits. x = n ln 2 + r with |r| <= ln(2) / 2; exp(r) = 1 + r + r^2 q(r) with q of degree 4,
// interpolated at Chebyshev points (error 1e-8); 2^n is added to the exponent.
HWY_INLINE FloatVector exponential(FloatVector x) {
  const FloatTag d;
  const BitsTag bits;
  const auto shift = hn::Set(d, kRoundingShift);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const auto n = hn::Sub(shifted, shift);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto q = hn::Set(d, 0.00139336525F);
  q = hn::MulAdd(q, r, hn::Set(d, 0.00836318154F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.0416664649F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.16666577F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.500000001F));
  const auto power = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(bits, power), exponent));
}

// exp(x) for x <= kHighestExponent; 0 below kLowestExponent, also for -infinity. NaN becomes 0 too.
HWY_INLINE FloatVector exponential_or_zero(FloatVector x) {
  const FloatTag d;
  const auto lowest = hn::Set(d, kLowestExponent);
  return hn::IfThenElseZero(hn::Ge(x, lowest), exponential(x));
}

// How forms compute exponentials and quotients: exponential(x) is base^x, where kUnit = ln(e) in
// that base, for x within the limits times kUnit.

// Good to the last bits of a float.
struct FloatMath {
  static constexpr double kUnit = 1.0;
  static HWY_INLINE FloatVector exponential(FloatVector x) { return HWY_NAMESPACE::exponential(x); }
  static HWY_INLINE FloatVector divide(FloatVector x, FloatVector by) { return hn::Div(x, by); }
};

// For results that are stored in 16 bits (short_math.h).
struct ShortMath {
  static constexpr double kUnit = std::numbers::log2e;

  // 2^x = 2^n 2^r with |r| <= 1/2.
  static HWY_INLINE FloatVector exponential(FloatVector x) {
    const FloatTag d;
    const BitsTag bits;
    const auto shift = hn::Set(d, kRoundingShift);
    const auto shifted = hn::Add(x, shift);
    const auto r = hn::Sub(x, hn::Sub(shifted, shift));
    auto power = hn::Set(d, kShortPower[5]);
    power = hn::MulAdd(power, r, hn::Set(d, kShortPower[4]));
    power = hn::MulAdd(power, r, hn::Set(d, kShortPower[3]));
    power = hn::MulAdd(power, r, hn::Set(d, kShortPower[2]));
    power = hn::MulAdd(power, r, hn::Set(d, kShortPower[1]));
    power = hn::MulAdd(power, r, hn::Set(d, kShortPower[0]));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
    return hn::BitCast(d, hn::Add(hn::BitCast(bits, power), exponent));
  }

  // `by` is positive and normal.
  static HWY_INLINE FloatVector divide(FloatVector x, FloatVector by) {
    const FloatTag d;
    const BitsTag bits;
    const auto one = hn::Set(d, 1.0F);
    auto reciprocal =
        hn::BitCast(d, hn::Sub(hn::Set(bits, kReciprocalBits), hn::BitCast(bits, by)));
    const auto error = hn::NegMulAdd(by, reciprocal, one);
    reciprocal = hn::MulAdd(reciprocal, hn::MulAdd(error, error, error), reciprocal);
    reciprocal = hn::MulAdd(reciprocal, hn::NegMulAdd(by, reciprocal, one), reciprocal);
    return hn::Mul(x, reciprocal);
  }
};

// What a form whose results are stored as T computes with.
template <typename T>
using MathOf = std::conditional_t<sizeof(T) == 2, ShortMath, FloatMath>;

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
