#pragma once
// Activations, ops/activation.h. exp(x) is exp2_of(x log2(e)), which has other bits on a device
// than on the emulated machine.

#include "phalanx/ops/cuda/elementwise-inl.h"

namespace phalanx::cuda {

// ops::ActivationKind, in its order.
enum class Activation : std::uint8_t { kGeluTanh, kGeluErf, kRelu, kSquaredRelu, kSilu };

PHALANX_DEVICE float clamp_of(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}
// exp(x): what the product with log2(e) loses is put back. Beyond 100 it is 0 or infinity anyway.
PHALANX_DEVICE float exp_of(float x) {
  constexpr float kLog2e = 1.44269504088896341F;
  constexpr float kLog2eRest = 1.92596299112661746e-8F;
  constexpr float kLn2 = 0.693147180559945309F;
  x = clamp_of(x, 100.0F);
  const float power = x * kLog2e;
  const float rest = fma_of(x, kLog2eRest, fma_of(x, kLog2e, -power));
  return exp2_of(power) * fma_of(rest, kLn2, 1.0F);
}
// 1 / (1 + exp(-x)); infinity in between gives 0.
PHALANX_DEVICE float sigmoid_of(float x) { return reciprocal_of(1.0F + exp_of(-x)); }
// By its series where exp(2 x) - 1 would lose digits.
PHALANX_DEVICE float tanh_of(float x) {
  const float magnitude = x < 0.0F ? -x : x;
  if (magnitude < 0.25F) {
    const float s = x * x;
    float sum = fma_of(s, -0.00886323552990219656F, 0.0218694885361552028F);
    sum = fma_of(s, sum, -0.0539682539682539683F);
    sum = fma_of(s, sum, 0.133333333333333333F);
    sum = fma_of(s, sum, -0.333333333333333333F);
    return fma_of(x * s, sum, x);
  }
  const float result = 1.0F - 2.0F * reciprocal_of(1.0F + exp_of(2.0F * magnitude));
  return x < 0.0F ? -result : result;
}

constexpr float kTanhScale = 0.797884560802865356F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
constexpr float kInverseRoot2 = 0.707106781186547524F;

template <Activation kKind>
PHALANX_DEVICE float value_of(float x) {
  if constexpr (kKind == Activation::kGeluTanh) {
    // (1 + tanh(u)) / 2 is sigmoid(2 u).
    return x * sigmoid_of(2.0F * kTanhScale * x * fma_of(kCubic * x, x, 1.0F));
  } else if constexpr (kKind == Activation::kGeluErf) {
    return 0.5F * x * erfc_of(-x * kInverseRoot2);
  } else if constexpr (kKind == Activation::kRelu) {
    return x > 0.0F ? x : x != x ? x : 0.0F;
  } else if constexpr (kKind == Activation::kSquaredRelu) {
    return x > 0.0F ? x * x : x != x ? x : 0.0F;
  } else {
    return x * sigmoid_of(x);
  }
}

// The derivative of x sigmoid(u) where u has the derivative `inner`. 1 - s is e s: a difference
// would lose digits near 1. The caller keeps e finite.
PHALANX_DEVICE float swish_derivative(float x, float u, float inner) {
  const float e = exp_of(-u);
  const float s = reciprocal_of(1.0F + e);
  return fma_of(x * s * (e * s), inner, s);
}

template <Activation kKind>
PHALANX_DEVICE float derivative_of(float x) {
  if constexpr (kKind == Activation::kGeluTanh) {
    // Beyond 8 it is 0 or 1.
    const float c = clamp_of(x, 8.0F);
    return swish_derivative(c, 2.0F * kTanhScale * c * fma_of(kCubic * c, c, 1.0F),
                            2.0F * kTanhScale * fma_of(3.0F * kCubic * c, c, 1.0F));
  } else if constexpr (kKind == Activation::kGeluErf) {
    const float c = clamp_of(x, 30.0F);
    const float density = exp_of(-0.5F * c * c) * 0.398942280401432678F;
    return fma_of(c, density, 0.5F * erfc_of(-x * kInverseRoot2));
  } else if constexpr (kKind == Activation::kRelu) {
    return x > 0.0F ? 1.0F : 0.0F;
  } else if constexpr (kKind == Activation::kSquaredRelu) {
    return x > 0.0F ? 2.0F * x : 0.0F;
  } else {
    const float c = clamp_of(x, 80.0F);
    return swish_derivative(c, c, 1.0F);
  }
}

template <Activation kKind>
struct KindOf {
  static constexpr Activation kValue = kKind;
};
// Calls use(KindOf<kind>()).
template <typename Use>
PHALANX_DEVICE void with_kind(Activation kind, const Use& use) {
  switch (kind) {
    case Activation::kGeluTanh:
      return use(KindOf<Activation::kGeluTanh>());
    case Activation::kGeluErf:
      return use(KindOf<Activation::kGeluErf>());
    case Activation::kRelu:
      return use(KindOf<Activation::kRelu>());
    case Activation::kSquaredRelu:
      return use(KindOf<Activation::kSquaredRelu>());
    case Activation::kSilu:
      return use(KindOf<Activation::kSilu>());
  }
}

struct ActivationShape {
  std::int64_t rows;
  std::int64_t columns;  // of y
  std::int64_t packs;    // of a row
  Activation kind;
  bool packed;
};

// 8 elements of a row, with the bias if there is one.
template <typename T>
PHALANX_DEVICE void load_biased(const T* row, const T* bias, std::int64_t i, std::int64_t end,
                                bool packed, float (&to)[8]) {
  load8(row, i, end, packed, to);
  if (bias == nullptr) return;
  float more[8];
  load8(bias, i, end, packed, more);
#pragma unroll
  for (int e = 0; e < 8; ++e) to[e] += more[e];
}

template <typename T>
struct BiasActivationForwardKernel : ByEight {
  struct Params {
    ActivationShape shape;
    T* y;
    const T* x;
    const T* bias;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const ActivationShape& s = p.shape;
    const RowPlace at = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (at.r >= s.rows) return;
    float x[8];
    load_biased(p.x + at.r * s.columns, p.bias, at.i, s.columns, s.packed, x);
    with_kind(s.kind, [&](auto kind) {
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e] = value_of<decltype(kind)::kValue>(x[e]);
    });
    store8(p.y + at.r * s.columns, at.i, s.columns, s.packed, x);
  }
};

template <typename T>
struct BiasActivationBackwardKernel : ByEight {
  struct Params {
    ActivationShape shape;
    T* dx;
    const T* dy;
    const T* x;
    const T* bias;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const ActivationShape& s = p.shape;
    const RowPlace at = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (at.r >= s.rows) return;
    float x[8];
    float dy[8];
    load_biased(p.x + at.r * s.columns, p.bias, at.i, s.columns, s.packed, x);
    load8(p.dy + at.r * s.columns, at.i, s.columns, s.packed, dy);
    with_kind(s.kind, [&](auto kind) {
#pragma unroll
      for (int e = 0; e < 8; ++e) dy[e] *= derivative_of<decltype(kind)::kValue>(x[e]);
    });
    store8(p.dx + at.r * s.columns, at.i, s.columns, s.packed, dy);
  }
};

// x = [gate | up].
template <typename T>
struct GatedActivationForwardKernel : ByEight {
  using Params = typename BiasActivationForwardKernel<T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const ActivationShape& s = p.shape;
    const RowPlace at = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (at.r >= s.rows) return;
    const T* row = p.x + 2 * at.r * s.columns;
    float gate[8];
    float up[8];
    load_biased(row, p.bias, at.i, s.columns, s.packed, gate);
    load_biased(row + s.columns, p.bias == nullptr ? nullptr : p.bias + s.columns, at.i, s.columns,
                s.packed, up);
    with_kind(s.kind, [&](auto kind) {
#pragma unroll
      for (int e = 0; e < 8; ++e) gate[e] = value_of<decltype(kind)::kValue>(gate[e]) * up[e];
    });
    store8(p.y + at.r * s.columns, at.i, s.columns, s.packed, gate);
  }
};

template <typename T>
struct GatedActivationBackwardKernel : ByEight {
  using Params = typename BiasActivationBackwardKernel<T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const ActivationShape& s = p.shape;
    const RowPlace at = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (at.r >= s.rows) return;
    const T* row = p.x + 2 * at.r * s.columns;
    T* to = p.dx + 2 * at.r * s.columns;
    float gate[8];
    float up[8];
    float dy[8];
    load_biased(row, p.bias, at.i, s.columns, s.packed, gate);
    load_biased(row + s.columns, p.bias == nullptr ? nullptr : p.bias + s.columns, at.i, s.columns,
                s.packed, up);
    load8(p.dy + at.r * s.columns, at.i, s.columns, s.packed, dy);
    with_kind(s.kind, [&](auto kind) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float of_gate = dy[e] * up[e] * derivative_of<decltype(kind)::kValue>(gate[e]);
        up[e] = dy[e] * value_of<decltype(kind)::kValue>(gate[e]);
        gate[e] = of_gate;
      }
    });
    store8(to, at.i, s.columns, s.packed, gate);
    store8(to + s.columns, at.i, s.columns, s.packed, up);
  }
};

template <typename T>
struct TanhForwardKernel : ByEight {
  struct Params {
    T* y;
    const T* x;
    std::int64_t n;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    float x[8];
    load8(p.x, i, p.n, p.packed, x);
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = tanh_of(x[e]);
    store8(p.y, i, p.n, p.packed, x);
  }
};

template <typename T>
struct TanhBackwardKernel : ByEight {
  struct Params {
    T* dx;
    const T* dy;
    const T* y;
    std::int64_t n;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    float dy[8];
    float y[8];
    load8(p.dy, i, p.n, p.packed, dy);
    load8(p.y, i, p.n, p.packed, y);
#pragma unroll
    for (int e = 0; e < 8; ++e) dy[e] *= fma_of(-y[e], y[e], 1.0F);
    store8(p.dx, i, p.n, p.packed, dy);
  }
};

}  // namespace phalanx::cuda
