// gelu(x) = x P(x), where P is the normal distribution function (erf) or its logistic approximation
// (tanh). Both keep the relative accuracy of the negative tail. Included once per target.

#include <numbers>

#include "phalanx/ops/cpu/exponential-inl.h"

#if defined(PHALANX_OPS_CPU_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_GELU_INL_H_
#undef PHALANX_OPS_CPU_GELU_INL_H_
#else
#define PHALANX_OPS_CPU_GELU_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)) with 2u = x (kTanhGeluLinear + kTanhGeluCubic x^2).
struct TanhGelu {
  // exp(-2u), limited to avoid infinity and subnormal numbers.
  static HWY_INLINE FloatVector power_of(FloatVector x, FloatVector square) {
    const FloatTag d;
    const auto slope = hn::MulAdd(square, hn::Set(d, static_cast<float>(-kTanhGeluCubic)),
                                  hn::Set(d, static_cast<float>(-kTanhGeluLinear)));
    const auto bound = hn::Set(d, kTanhGeluBound);
    return exponential(hn::Min(hn::Max(hn::Mul(x, slope), hn::Neg(bound)), bound));
  }
  static HWY_INLINE FloatVector value(FloatVector x) {
    const auto one = hn::Set(FloatTag(), 1.0F);
    return hn::Div(x, hn::Add(one, power_of(x, hn::Mul(x, x))));
  }
  // P + x P (1 - P) d(2u)/dx, where 1 - P = exp(-2u) P.
  static HWY_INLINE FloatVector derivative(FloatVector x) {
    const FloatTag d;
    const auto one = hn::Set(d, 1.0F);
    const auto square = hn::Mul(x, x);
    const auto power = power_of(x, square);
    const auto p = hn::Div(one, hn::Add(one, power));
    const auto slope = hn::MulAdd(square, hn::Set(d, static_cast<float>(3.0 * kTanhGeluCubic)),
                                  hn::Set(d, static_cast<float>(kTanhGeluLinear)));
    return hn::MulAdd(hn::Mul(p, hn::Mul(power, p)), hn::Mul(x, slope), p);
  }
};

// P(-a) = exp(-a^2 / 2) w(a) for a >= 0, w(a) = erfcx(a / sqrt 2) / 2: a smooth function, here a
// polynomial of degree 9 in t = (a - 3) / (a + 3), interpolated at Chebyshev points for a in [0,
// 13]. Its relative error is 1.9e-8; with float arithmetic P is good to 3e-7 where |x| < 3, and
// exp(-a^2 / 2) costs up to 3e-6 at the end of the tail.
struct ErfGelu {
  struct Parts {
    FloatVector density;  // exp(-x^2 / 2)
    FloatVector p;
  };
  static HWY_INLINE FloatVector tail_ratio(FloatVector a) {
    const FloatTag d;
    const auto three = hn::Set(d, 3.0F);
    const auto t = hn::Div(hn::Sub(a, three), hn::Add(a, three));
    auto w = hn::Set(d, 5.2700794716832334e-05F);
    w = hn::MulAdd(w, t, hn::Set(d, 0.00011385663642274469F));
    w = hn::MulAdd(w, t, hn::Set(d, -0.0003392150380105502F));
    w = hn::MulAdd(w, t, hn::Set(d, -0.0009822718857731849F));
    w = hn::MulAdd(w, t, hn::Set(d, 0.0029047186228651272F));
    w = hn::MulAdd(w, t, hn::Set(d, 0.006131638048316478F));
    w = hn::MulAdd(w, t, hn::Set(d, -0.046213342675878503F));
    w = hn::MulAdd(w, t, hn::Set(d, 0.12322507349289123F));
    w = hn::MulAdd(w, t, hn::Set(d, -0.20640261653950653F));
    return hn::MulAdd(w, t, hn::Set(d, 0.12151394693891168F));
  }
  static HWY_INLINE Parts parts(FloatVector x) {
    const FloatTag d;
    const auto a = hn::Min(hn::Abs(x), hn::Set(d, 13.0F));
    const auto density = exponential(hn::Mul(hn::Mul(a, hn::Set(d, -0.5F)), a));
    const auto tail = hn::Mul(density, tail_ratio(a));
    const auto negative = hn::Lt(x, hn::Zero(d));
    return {density, hn::IfThenElse(negative, tail, hn::Sub(hn::Set(d, 1.0F), tail))};
  }
  static HWY_INLINE FloatVector value(FloatVector x) { return hn::Mul(x, parts(x).p); }
  // P + x dP/dx.
  static HWY_INLINE FloatVector derivative(FloatVector x) {
    constexpr double kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const auto [density, p] = parts(x);
    const auto scaled = hn::Mul(x, hn::Set(FloatTag(), static_cast<float>(kDensity)));
    return hn::MulAdd(density, scaled, p);
  }
};

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
