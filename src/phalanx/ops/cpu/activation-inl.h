// Activations as types with value(x) and derivative(x). NaN stays NaN. Included once per target.

#include "phalanx/ops/activation.h"
#include "phalanx/ops/cpu/gelu-inl.h"

#if defined(PHALANX_OPS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ACTIVATION_INL_H_
#undef PHALANX_OPS_CPU_ACTIVATION_INL_H_
#else
#define PHALANX_OPS_CPU_ACTIVATION_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

struct Relu {
  static HWY_INLINE FloatVector value(FloatVector x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(FloatTag())), x);
  }
  static HWY_INLINE FloatVector derivative(FloatVector x) {
    const FloatTag d;
    const auto zero_or_nan = hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0F), zero_or_nan);
  }
};

struct SquaredRelu {
  static HWY_INLINE FloatVector value(FloatVector x) {
    const auto kept = Relu::value(x);
    return hn::Mul(kept, kept);
  }
  static HWY_INLINE FloatVector derivative(FloatVector x) {
    const auto kept = Relu::value(x);
    return hn::Add(kept, kept);
  }
};

// x s with s = 1 / (1 + exp(-x)).
struct Silu {
  // The limits keep exp(-x) away from infinity and subnormal numbers.
  static HWY_INLINE FloatVector power_of(FloatVector x) {
    const auto bound = hn::Set(FloatTag(), 80.0F);
    return exponential(hn::Min(hn::Max(hn::Neg(x), hn::Neg(bound)), bound));
  }
  static HWY_INLINE FloatVector value(FloatVector x) {
    return hn::Div(x, hn::Add(hn::Set(FloatTag(), 1.0F), power_of(x)));
  }
  // s + x s (1 - s), where 1 - s = exp(-x) s.
  static HWY_INLINE FloatVector derivative(FloatVector x) {
    const auto one = hn::Set(FloatTag(), 1.0F);
    const auto power = power_of(x);
    const auto s = hn::Div(one, hn::Add(one, power));
    return hn::MulAdd(hn::Mul(x, s), hn::Mul(power, s), s);
  }
};

// Calls body(Form()) with the type of an activation.
template <typename Body>
HWY_INLINE void with_form(ops::ActivationKind kind, const Body& body) {
  switch (kind) {
    case ops::ActivationKind::kGeluTanh:
      return body(TanhGelu());
    case ops::ActivationKind::kGeluErf:
      return body(ErfGelu());
    case ops::ActivationKind::kRelu:
      return body(Relu());
    case ops::ActivationKind::kSquaredRelu:
      return body(SquaredRelu());
    case ops::ActivationKind::kSilu:
      return body(Silu());
  }
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
