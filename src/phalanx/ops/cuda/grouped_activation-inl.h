#pragma once
// ops/grouped_activation.h. Forward a thread has 8 columns of a row; backward a warp has a row,
// whose sum it needs.

#include "phalanx/ops/cuda/activation-inl.h"
#include "phalanx/ops/cuda/groups-inl.h"

namespace phalanx::cuda {

template <typename T>
struct GroupedActivationOperands {
  const T* x;
  const T* bias;               // may be null
  const float* probabilities;  // may be null
  std::int64_t x_stride;
  std::int64_t bias_stride;
  std::int64_t columns;  // of y
  RowGroups groups;
  Activation kind;
  bool gated;
  bool packed;

  // 8 columns of x with their bias, from column `i` of x on; those from `end` on do not matter.
  PHALANX_DEVICE void load(std::int64_t r, std::int64_t group, std::int64_t first, std::int64_t i,
                           float (&to)[8]) const {
    load_biased(x + r * x_stride + first,
                bias == nullptr ? nullptr : bias + group * bias_stride + first, i, columns, packed,
                to);
  }
};

template <typename T>
struct GroupedActivationForwardKernel : ByEight {
  struct Params {
    GroupedActivationOperands<T> in;
    T* y;
    std::int64_t y_stride;
    std::int64_t packs;  // of a row
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const GroupedActivationOperands<T>& in = p.in;
    const RowPlace at = place_of_pack(t.block() * kThreads + t.index(), p.packs);
    if (at.r >= in.groups.rows) return;
    const std::int64_t group = in.groups.group_of(at.r);
    if (group < 0) return;
    const float factor = in.probabilities == nullptr ? 1.0F : in.probabilities[at.r];
    float x[8];
    float up[8];
    in.load(at.r, group, 0, at.i, x);
    if (in.gated) in.load(at.r, group, in.columns, at.i, up);
    with_kind(in.kind, [&](auto kind) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x[e] = value_of<decltype(kind)::kValue>(x[e]) * (in.gated ? up[e] : 1.0F) * factor;
      }
    });
    store8(p.y + at.r * p.y_stride, at.i, in.columns, in.packed, x);
  }
};

template <typename T>
struct GroupedActivationBackwardKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kRows = kThreads / 32;  // of a block
  struct Params {
    GroupedActivationOperands<T> in;
    T* dx;
    float* dprobabilities;
    const T* dy;
    std::int64_t dx_stride;
    std::int64_t dy_stride;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const GroupedActivationOperands<T>& in = p.in;
    const std::int64_t r = t.block() * kRows + t.warp();
    if (r >= in.groups.rows) return;
    const std::int64_t group = in.groups.group_of(r);
    if (group < 0) return;
    const float factor = in.probabilities == nullptr ? 1.0F : in.probabilities[r];
    float sum = 0.0F;
    for (std::int64_t i = 8 * t.lane(); i < in.columns; i += 256) {
      float x[8];
      float up[8];
      float dy[8];
      in.load(r, group, 0, i, x);
      if (in.gated) in.load(r, group, in.columns, i, up);
      load8(p.dy + r * p.dy_stride, i, in.columns, in.packed, dy);
      with_kind(in.kind, [&](auto kind) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const float value = value_of<decltype(kind)::kValue>(x[e]);
          const float slope = derivative_of<decltype(kind)::kValue>(x[e]);
          const float beside = in.gated ? up[e] : 1.0F;
          if (i + e < in.columns) sum = fma_of(dy[e], value * beside, sum);
          x[e] = dy[e] * factor * beside * slope;
          up[e] = dy[e] * factor * value;
        }
      });
      T* to = p.dx + r * p.dx_stride;
      store8(to, i, in.columns, in.packed, x);
      if (in.gated) store8(to + in.columns, i, in.columns, in.packed, up);
    }
    if (p.dprobabilities == nullptr) return;
    sum = warp_sum(t, sum);
    if (t.lane() == 0) p.dprobabilities[r] = sum;
  }
};

}  // namespace phalanx::cuda
