#pragma once
// Rotary positions, ops/rotary.h. A thread has 8 pairs of a head, or 8 elements behind the pairs.

#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

// Cosines and sines of the angles of some pairs, from `first_pair` on.
struct RotaryTableKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMostPairs = 512;  // of a launch
  struct Params {
    float* table;  // [positions, 2 pairs]
    std::int64_t positions;
    std::int64_t pairs;
    std::int64_t first_pair;
    std::int64_t count;
    float step;
    float factor;
    float theta[kMostPairs];
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t n = t.block() * kThreads + t.index();
    const std::int64_t position = n / p.count;
    const std::int64_t i = n % p.count;
    if (position >= p.positions) return;
    const auto angle = static_cast<double>(static_cast<float>(position) * p.step * p.theta[i]);
    float* to = p.table + position * 2 * p.pairs + p.first_pair + i;
    to[0] = static_cast<float>(cos_of(angle)) * p.factor;
    to[p.pairs] = static_cast<float>(sin_of(angle)) * p.factor;
  }
};

// Where the heads of a row of the batch lie: elements from one to the next.
struct HeadStrides {
  std::int64_t row;
  std::int64_t sample;
  std::int64_t group;
  std::int64_t head;
};

// y = x with rotated pairs; y may be x.
template <typename T, bool kInterleaved>
struct RotateKernel {
  static constexpr int kThreads = 256;
  struct Params {
    T* y;
    const T* x;
    HeadStrides y_strides;
    HeadStrides x_strides;
    std::int64_t rows;
    std::int64_t batch;
    std::int64_t heads;   // of a group
    std::int64_t groups;  // of a row
    std::int64_t width;   // of a head
    const std::int32_t* position;
    std::int64_t position_row;
    std::int64_t position_sample;
    const float* table;  // [positions, 2 pairs]
    std::int64_t positions;
    std::int64_t pairs;
    std::int64_t pair_packs;  // of a head: of pairs
    std::int64_t packs;       // and of what lies behind them, where y is not x
    float sign;               // of the sines
    FaultReport faults;
    bool packed;        // the elements' packs are aligned
    bool packed_table;  // and those of the table
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }

  PHALANX_DEVICE static void turn(float& first, float& second, float cosine, float sine) {
    const float turned = fma_of(-second, sine, first * cosine);
    second = fma_of(first, sine, second * cosine);
    first = turned;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    // Of all packs of all heads, 8 "columns" each.
    const auto [head_of_all, first] = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    const RowPlace place = place_of_pack(head_of_all, p.heads * p.groups);
    const std::int64_t r = place.r;
    if (r >= p.rows) return;
    const std::int64_t head = place.i / 8 % p.heads;
    const std::int64_t group = place.i / 8 / p.heads;
    const std::int64_t s = r / p.batch;
    const std::int64_t b = r % p.batch;
    const auto at = [&](const HeadStrides& strides) {
      return s * strides.row + b * strides.sample + group * strides.group + head * strides.head;
    };
    const T* x = p.x + at(p.x_strides);
    T* y = p.y + at(p.y_strides);
    if (first >= 8 * p.pair_packs) {
      const std::int64_t i = 2 * p.pairs + first - 8 * p.pair_packs;
      for (std::int64_t e = i; e < i + 8 && e < p.width; ++e) y[e] = x[e];
      return;
    }
    std::int64_t position = p.position[s * p.position_row + b * p.position_sample];
    if (position < 0 || position >= p.positions) {
      if (first == 0 && place.i == 0) report_fault(t, p.faults, r, position, p.positions);
      position = 0;
    }
    const float* angles = p.table + position * 2 * p.pairs;
    float cosines[8];
    float sines[8];
    load8(angles, first, p.pairs, p.packed_table, cosines);
    load8(angles + p.pairs, first, p.pairs, p.packed_table, sines);
    float one[8];
    float two[8];
    if constexpr (kInterleaved) {
      load8(x, 2 * first, 2 * p.pairs, p.packed, one);
      load8(x, 2 * first + 8, 2 * p.pairs, p.packed, two);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        turn(one[2 * e], one[2 * e + 1], cosines[e], p.sign * sines[e]);
        turn(two[2 * e], two[2 * e + 1], cosines[4 + e], p.sign * sines[4 + e]);
      }
      store8(y, 2 * first, 2 * p.pairs, p.packed, one);
      store8(y, 2 * first + 8, 2 * p.pairs, p.packed, two);
    } else {
      load8(x, first, p.pairs, p.packed, one);
      load8(x + p.pairs, first, p.pairs, p.packed, two);
#pragma unroll
      for (int e = 0; e < 8; ++e) turn(one[e], two[e], cosines[e], p.sign * sines[e]);
      store8(y, first, p.pairs, p.packed, one);
      store8(y + p.pairs, first, p.pairs, p.packed, two);
    }
  }
};

}  // namespace phalanx::cuda
