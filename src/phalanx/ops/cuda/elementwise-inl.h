#pragma once
// Fill, copy, conversion, addition, and multiplication by a number.

#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

// Kernels of 8 elements a thread.
struct ByEight {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kElements = 8 * kThreads;
  PHALANX_DEVICE static std::int64_t first(const Thread& t) {
    return (t.block() * kThreads + t.index()) * 8;
  }
};

// x = bits, of 2, 4 or 8 bytes.
template <typename Bits>
struct FillKernel : ByEight {
  struct Params {
    Bits* x;
    std::int64_t n;
    Bits bits;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    constexpr int kPack = 16 / sizeof(Bits) < 8 ? 16 / sizeof(Bits) : 8;
    // Neighbours write packs beside each other.
#pragma unroll
    for (int part = 0; part < 8 / kPack; ++part) {
      const std::int64_t i =
          t.block() * kElements + (std::int64_t{part} * kThreads + t.index()) * kPack;
      if (p.packed && i + kPack <= p.n) {
        Pack<Bits, kPack> pack;
#pragma unroll
        for (int e = 0; e < kPack; ++e) pack.at[e] = p.bits;
        store_pack<kPack>(p.x + i, pack);
      } else {
        for (std::int64_t e = i; e < i + kPack && e < p.n; ++e) p.x[e] = p.bits;
      }
    }
  }
};

// destination = source, rounded.
template <typename D, typename S>
struct ConvertKernel : ByEight {
  struct Params {
    D* destination;
    const S* source;
    std::int64_t n;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    float values[8];
    load8(p.source, i, p.n, p.packed, values);
    store8(p.destination, i, p.n, p.packed, values);
  }
};

// destination += source.
template <typename D, typename S>
struct AccumulateKernel : ByEight {
  using Params = typename ConvertKernel<D, S>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    float sum[8];
    float more[8];
    load8(p.destination, i, p.n, p.packed, sum);
    load8(p.source, i, p.n, p.packed, more);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += more[e];
    store8(p.destination, i, p.n, p.packed, sum);
  }
};

// Of integers and doubles.
template <typename T>
struct AccumulateExactKernel : ByEight {
  using Params = typename ConvertKernel<T, T>::Params;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    for (std::int64_t e = i; e < i + 8 && e < p.n; ++e) p.destination[e] += p.source[e];
  }
};

// y = factor x.
template <typename T>
struct ScaleKernel : ByEight {
  struct Params {
    T* y;
    const T* x;
    std::int64_t n;
    float factor;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = first(t);
    float values[8];
    load8(p.x, i, p.n, p.packed, values);
#pragma unroll
    for (int e = 0; e < 8; ++e) values[e] *= p.factor;
    store8(p.y, i, p.n, p.packed, values);
  }
};

// Any strides of up to 6 dimensions. Equal types are copied as bits.
template <typename D, typename S>
struct StridedCopyKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMostDims = 6;
  struct Params {
    D* destination;
    const S* source;
    std::int64_t n;
    int dims;
    std::int64_t extents[kMostDims];  // elements
    std::int64_t to[kMostDims];       // strides
    std::int64_t from[kMostDims];
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.n) return;
    std::int64_t rest = i;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int d = p.dims - 1; d >= 0; --d) {
      const std::int64_t index = rest % p.extents[d];
      rest /= p.extents[d];
      to += index * p.to[d];
      from += index * p.from[d];
    }
    if constexpr (std::is_same_v<D, S>) {
      p.destination[to] = p.source[from];
    } else {
      p.destination[to] = round_to<D>(to_float(p.source[from]));
    }
  }
};

}  // namespace phalanx::cuda
