#pragma once
// Single elements of floating-point tensors as doubles, where vectors are not worth it. Narrowing
// rounds to float first.

#include "phalanx/base/dtype.h"

namespace phalanx::cpu {

inline double widen(double value) { return value; }
inline double widen(float value) { return value; }
inline double widen(bfloat16 value) { return to_float(value); }
inline double widen(float16 value) { return to_float(value); }

template <typename T>
T narrow(double value) {
  return static_cast<T>(value);
}
template <>
inline bfloat16 narrow<bfloat16>(double value) {
  return to_bfloat16(static_cast<float>(value));
}
template <>
inline float16 narrow<float16>(double value) {
  return to_float16(static_cast<float>(value));
}

}  // namespace phalanx::cpu
