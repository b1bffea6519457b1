#pragma once
// The end of a sub-layer, ops/dropout.h: out = residual + dropout(x + bias), and its backward. A
// thread has 8 features of a row: two calls of Philox.

#include "phalanx/ops/cuda/elementwise-inl.h"

namespace phalanx::cuda {

struct DropoutPlan {
  std::uint32_t key_low;
  std::uint32_t key_high;
  std::uint32_t site;
  std::uint32_t threshold;    // a word below it drops
  float multiplier;           // of what is kept: float(1 / (1 - p))
  bool draws;                 // false with probability 0
  std::uint32_t first_block;  // of four features: the one of a row's first
};

// The random words of features i .. i + 7 (i a multiple of 8) of a row.
PHALANX_DEVICE void words8(const DropoutPlan& plan, std::int64_t sample, std::int32_t position,
                           std::int64_t i, std::uint32_t (&found)[8]) {
  const auto number = static_cast<std::uint64_t>(sample);
  const std::uint32_t high =
      plan.key_high ^ (static_cast<std::uint32_t>(number >> 32) * 0x85EBCA6BU);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Words4 words = philox(
        plan.key_low, high,
        {{plan.first_block + static_cast<std::uint32_t>(i / 4 + half),
          static_cast<std::uint32_t>(position), plan.site, static_cast<std::uint32_t>(number)}});
#pragma unroll
    for (int e = 0; e < 4; ++e) found[4 * half + e] = words.at[e];
  }
}

// The multipliers of features i .. i + 7 (i a multiple of 8) of a row.
PHALANX_DEVICE void dropout8(const DropoutPlan& plan, std::int64_t sample, std::int32_t position,
                             std::int64_t i, float (&multipliers)[8]) {
  std::uint32_t words[8];
  words8(plan, sample, position, i, words);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    multipliers[e] = words[e] < plan.threshold ? 0.0F : plan.multiplier;
  }
}

struct DropoutShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t packs;            // of a row: columns / 8, rounded up
  const std::int64_t* sample;    // [rows]
  const std::int32_t* position;  // [rows]
  bool packed;
};

template <typename T, typename Stream>
struct BiasDropoutResidualKernel : ByEight {
  struct Params {
    DropoutPlan plan;
    DropoutShape shape;
    Stream* out;
    const T* x;
    const T* bias;  // may be null
    const Stream* residual;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const DropoutShape& s = p.shape;
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (r >= s.rows) return;
    float values[8];
    float sum[8];
    load8(p.x + r * s.columns, i, s.columns, s.packed, values);
    load8(p.residual + r * s.columns, i, s.columns, s.packed, sum);
    if (p.bias != nullptr) {
      float bias[8];
      load8(p.bias, i, s.columns, s.packed, bias);
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = rounded<T>(values[e] + bias[e]);
    }
    if (p.plan.draws) {
      float multipliers[8];
      dropout8(p.plan, s.sample[r], s.position[r], i, multipliers);
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = rounded<T>(values[e] * multipliers[e]);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += values[e];
    store8(p.out + r * s.columns, i, s.columns, s.packed, sum);
  }
};

template <typename T, typename Stream>
struct DropoutBackwardKernel : ByEight {
  struct Params {
    DropoutPlan plan;
    DropoutShape shape;
    T* dx;
    const Stream* dout;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const DropoutShape& s = p.shape;
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (r >= s.rows) return;
    float values[8];
    load8(p.dout + r * s.columns, i, s.columns, s.packed, values);
    if (p.plan.draws) {
      float multipliers[8];
      dropout8(p.plan, s.sample[r], s.position[r], i, multipliers);
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] *= multipliers[e];
    }
    store8(p.dx + r * s.columns, i, s.columns, s.packed, values);
  }
};

// Jitter (ops/dropout.h); a factor is that of base/philox.h, to the bit.
struct JitterKernel : ByEight {
  struct Params {
    DropoutPlan plan;
    DropoutShape shape;
    float epsilon;
    float* y;
    const float* x;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const DropoutShape& s = p.shape;
    const auto [r, i] = place_of_pack(t.block() * kThreads + t.index(), s.packs);
    if (r >= s.rows) return;
    float values[8];
    load8(p.x + r * s.columns, i, s.columns, s.packed, values);
    std::uint32_t words[8];
    words8(p.plan, s.sample[r], s.position[r], i, words);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const double centred = static_cast<double>(words[e] >> 8) / 8388608.0 - 1.0;
      values[e] *= static_cast<float>(1.0 + static_cast<double>(p.epsilon) * centred);
    }
    store8(p.y + r * s.columns, i, s.columns, s.packed, values);
  }
};

}  // namespace phalanx::cuda
