#pragma once
// Adam and SGD over the segments of flat buffers: one launch for all parameters.

#include "phalanx/ops/cuda/segments-inl.h"

namespace phalanx::cuda {

template <typename T>
PHALANX_DEVICE void load4(const T* x, const Four& four, bool packed, float (&to)[4]) {
  if (packed && four.whole()) {
    const auto pack = load_pack<4>(x + four.i);
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = to_float(pack.at[e]);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = four.has(e) ? to_float(x[four.i + e]) : 0.0F;
  }
}
template <typename T>
PHALANX_DEVICE void store4(T* x, const Four& four, bool packed, const float (&from)[4]) {
  if (packed && four.whole()) {
    Pack<T, 4> pack;
#pragma unroll
    for (int e = 0; e < 4; ++e) pack.at[e] = round_to<T>(from[e]);
    store_pack<4>(x + four.i, pack);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (four.has(e)) x[four.i + e] = round_to<T>(from[e]);
    }
  }
}

// What both rules have. Numbers of a step lie in device memory: a graph would replay values.
template <typename T>
struct OptimizerCommon {
  SegmentRows segments;
  const double* settings;  // [groups, 2]: rate, weight decay
  const float* factor;     // [1]
  const float* skip;       // [1]: not 0: nothing changes
  float* weight;
  T* storage;  // may be null
  const float* gradient;
  bool packed;  // fours of the grid begin at multiples of 16 bytes
};

// ops/optimizer.h's AdamSegments, with the CPU kernel's expressions.
template <typename T>
struct AdamKernel {
  static constexpr int kThreads = 256;
  struct Params {
    OptimizerCommon<T> common;
    float* exp_avg;
    float* exp_avg_sq;
    const double* corrections;  // [2]: 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
    float beta1;
    float beta2;
    float one_minus_beta1;
    float one_minus_beta2;
    float epsilon;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const OptimizerCommon<T>& c = p.common;
    if (*c.skip != 0.0F) return;
    const SegmentBlock block = segment_block(t, c.segments);
    const auto rate = static_cast<float>(c.settings[2 * block.group]);
    const auto decay = static_cast<float>(c.settings[2 * block.group + 1]);
    const float factor = *c.factor;
    const auto correct1 = static_cast<float>(p.corrections[0]);
    const auto correct_root2 = static_cast<float>(p.corrections[1]);
    for_fours(t, block, [&](const Four& four) {
      float w[4];
      float g[4];
      float m[4];
      float v[4];
      load4(c.weight, four, c.packed, w);
      load4(c.gradient, four, c.packed, g);
      load4(p.exp_avg, four, c.packed, m);
      load4(p.exp_avg_sq, four, c.packed, v);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float scaled = g[e] * factor;
        m[e] = fma_of(p.beta1, m[e], p.one_minus_beta1 * scaled);
        v[e] = fma_of(p.beta2, v[e], p.one_minus_beta2 * scaled * scaled);
        const float root = fma_of(sqrt_of(v[e]), correct_root2, p.epsilon);
        const float change = fma_of(decay, w[e], m[e] * correct1 / root);
        w[e] = fma_of(-rate, change, w[e]);
      }
      store4(p.exp_avg, four, c.packed, m);
      store4(p.exp_avg_sq, four, c.packed, v);
      store4(c.weight, four, c.packed, w);
      if (c.storage != nullptr) store4(c.storage, four, c.packed, w);
    });
  }
};

// ops/optimizer.h's SgdSegments.
template <typename T>
struct SgdKernel {
  static constexpr int kThreads = 256;
  struct Params {
    OptimizerCommon<T> common;
    float* momentum_buffer;  // null without momentum
    float momentum;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const OptimizerCommon<T>& c = p.common;
    if (*c.skip != 0.0F) return;
    const SegmentBlock block = segment_block(t, c.segments);
    const auto rate = static_cast<float>(c.settings[2 * block.group]);
    const auto decay = static_cast<float>(c.settings[2 * block.group + 1]);
    const float factor = *c.factor;
    for_fours(t, block, [&](const Four& four) {
      float w[4];
      float g[4];
      float b[4];
      load4(c.weight, four, c.packed, w);
      load4(c.gradient, four, c.packed, g);
      if (p.momentum_buffer != nullptr) load4(p.momentum_buffer, four, c.packed, b);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float step = fma_of(decay, w[e], g[e] * factor);
        b[e] = p.momentum_buffer != nullptr ? fma_of(p.momentum, b[e], step) : step;
        w[e] = fma_of(-rate, b[e], w[e]);
      }
      if (p.momentum_buffer != nullptr) store4(p.momentum_buffer, four, c.packed, b);
      store4(c.weight, four, c.packed, w);
      if (c.storage != nullptr) store4(c.storage, four, c.packed, w);
    });
  }
};

}  // namespace phalanx::cuda
