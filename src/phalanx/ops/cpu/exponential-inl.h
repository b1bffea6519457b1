// exp for kernels that need it for every element. Included once per target.

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
  // Adding 1.5 2^23 leaves the nearest integer in the low bits.
  const auto magic = hn::Set(d, 12582912.0F);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const auto n = hn::Sub(shifted, magic);
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

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
