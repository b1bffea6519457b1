// exp for kernels that need it for every element. Included once per target.

#include "phalanx/ops/cpu/exponential_constants.h"
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
// no limits; exponential_constants.h says how. 2^n is added to the exponent.
HWY_INLINE FloatVector exponential(FloatVector x) {
  const FloatTag d;
  const BitsTag bits;
  const auto shift = hn::Set(d, kRoundingShift);
  const auto shifted = hn::MulAdd(x, hn::Set(d, kLog2OfE), shift);
  const auto n = hn::Sub(shifted, shift);
  auto r = hn::NegMulAdd(n, hn::Set(d, kLn2Parts[0]), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Parts[1]), r);
  auto q = hn::Set(d, kExponentialTerms[4]);
  q = hn::MulAdd(q, r, hn::Set(d, kExponentialTerms[3]));
  q = hn::MulAdd(q, r, hn::Set(d, kExponentialTerms[2]));
  q = hn::MulAdd(q, r, hn::Set(d, kExponentialTerms[1]));
  q = hn::MulAdd(q, r, hn::Set(d, kExponentialTerms[0]));
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
