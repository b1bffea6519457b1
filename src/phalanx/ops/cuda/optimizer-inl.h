#pragma once
// Adam and SGD over the segments of a flat buffer: one launch for all parameters. A block has 4,096
// elements of one segment.

#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

// A run of elements with the same settings.
struct OptimizerSegment {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t first_block = 0;
  std::int32_t group = 0;  // of settings
  std::int32_t unused = 0;
};

inline constexpr std::int64_t kOptimizerBlock = 4096;

// The segment of a block: the last whose first block is not behind it.
PHALANX_DEVICE OptimizerSegment segment_of_block(const OptimizerSegment* segments,
                                                 std::int64_t count, std::int64_t block) {
  std::int64_t low = 0;
  std::int64_t high = count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (segments[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return segments[low];
}

// update(first element, how many of 4) for the elements of this thread.
template <typename Update>
PHALANX_DEVICE void for_fours(Thread& t, const OptimizerSegment& segment, const Update& update) {
  const std::int64_t offset = (t.block() - segment.first_block) * kOptimizerBlock;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t i = offset + 4 * (t.index() + std::int64_t{j} * 256);
    if (i < segment.count) {
      const std::int64_t left = segment.count - i;
      update(segment.begin + i, left < 4 ? static_cast<int>(left) : 4);
    }
  }
}

template <typename T>
PHALANX_DEVICE void load4(const T* x, std::int64_t i, int count, bool packed, float (&to)[4]) {
  if (packed && count == 4) {
    const auto pack = load_pack<4>(x + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = to_float(pack.at[e]);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = e < count ? to_float(x[i + e]) : 0.0F;
  }
}
template <typename T>
PHALANX_DEVICE void store4(T* x, std::int64_t i, int count, bool packed, const float (&from)[4]) {
  if (packed && count == 4) {
    Pack<T, 4> pack;
#pragma unroll
    for (int e = 0; e < 4; ++e) pack.at[e] = round_to<T>(from[e]);
    store_pack<4>(x + i, pack);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < count) x[i + e] = round_to<T>(from[e]);
    }
  }
}

// What both rules have. Numbers of a step lie in device memory: a graph would replay values.
template <typename T>
struct OptimizerCommon {
  const OptimizerSegment* segments;
  std::int64_t segment_count;
  const float* settings;  // [groups, 2]: rate, weight decay
  const float* factor;    // [1]
  const float* skip;      // [1]: not 0: nothing changes
  float* weight;
  T* storage;  // may be null
  const float* gradient;
  bool packed;  // every segment and buffer begins at a multiple of 16 bytes
};

// ops/optimizer.h's Adam, with the CPU kernel's expressions.
template <typename T>
struct AdamKernel {
  static constexpr int kThreads = 256;
  struct Params {
    OptimizerCommon<T> common;
    float* exp_avg;
    float* exp_avg_sq;
    const float* corrections;  // [2]: 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
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
    const OptimizerSegment segment = segment_of_block(c.segments, c.segment_count, t.block());
    const float rate = c.settings[2 * segment.group];
    const float decay = c.settings[2 * segment.group + 1];
    const float factor = *c.factor;
    const float correct1 = p.corrections[0];
    const float correct_root2 = p.corrections[1];
    for_fours(t, segment, [&](std::int64_t i, int count) {
      float w[4];
      float g[4];
      float m[4];
      float v[4];
      load4(c.weight, i, count, c.packed, w);
      load4(c.gradient, i, count, c.packed, g);
      load4(p.exp_avg, i, count, c.packed, m);
      load4(p.exp_avg_sq, i, count, c.packed, v);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float scaled = g[e] * factor;
        m[e] = fma_of(p.beta1, m[e], p.one_minus_beta1 * scaled);
        v[e] = fma_of(p.beta2, v[e], p.one_minus_beta2 * scaled * scaled);
        const float root = fma_of(sqrt_of(v[e]), correct_root2, p.epsilon);
        const float change = fma_of(decay, w[e], m[e] * correct1 / root);
        w[e] = fma_of(-rate, change, w[e]);
      }
      store4(p.exp_avg, i, count, c.packed, m);
      store4(p.exp_avg_sq, i, count, c.packed, v);
      store4(c.weight, i, count, c.packed, w);
      if (c.storage != nullptr) store4(c.storage, i, count, c.packed, w);
    });
  }
};

// ops/optimizer.h's Sgd.
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
    const OptimizerSegment segment = segment_of_block(c.segments, c.segment_count, t.block());
    const float rate = c.settings[2 * segment.group];
    const float decay = c.settings[2 * segment.group + 1];
    const float factor = *c.factor;
    for_fours(t, segment, [&](std::int64_t i, int count) {
      float w[4];
      float g[4];
      float b[4];
      load4(c.weight, i, count, c.packed, w);
      load4(c.gradient, i, count, c.packed, g);
      if (p.momentum_buffer != nullptr) load4(p.momentum_buffer, i, count, c.packed, b);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float step = fma_of(decay, w[e], g[e] * factor);
        b[e] = p.momentum_buffer != nullptr ? fma_of(p.momentum, b[e], step) : step;
        w[e] = fma_of(-rate, b[e], w[e]);
      }
      if (p.momentum_buffer != nullptr) store4(p.momentum_buffer, i, count, c.packed, b);
      store4(c.weight, i, count, c.packed, w);
      if (c.storage != nullptr) store4(c.storage, i, count, c.packed, w);
    });
  }
};

}  // namespace phalanx::cuda
