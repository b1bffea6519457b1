#pragma once
// Products of groups, ops/grouped_linear.h, in tiles of 64 x 64 by fused multiply-adds in fp32, and
// what belongs to biases of groups. A tile sums over its depth in order, so a row's bits depend
// neither on other rows nor on other groups.

#include "phalanx/ops/cuda/attention_tile-inl.h"
#include "phalanx/ops/cuda/dot-inl.h"
#include "phalanx/ops/cuda/groups-inl.h"

namespace phalanx::cuda {

// Memory of a block: 64 lines of both factors.
inline constexpr std::int64_t kFactorsBytes =
    2 * AttentionTile::kNumbers * static_cast<std::int64_t>(sizeof(float));

// out = in W^T (+ bias) or, kTransposed, in W: a tile of rows by 64 columns.
template <typename T, bool kTransposed>
struct GroupedProductKernel : AttentionTile {
  struct Params {
    T* out;
    const T* in;
    const T* weight;
    std::int64_t out_stride;
    std::int64_t in_stride;
    std::int64_t weight_stride;  // from matrix to matrix
    std::int64_t columns;        // of out
    std::int64_t depth;          // columns of in
    const T* bias;
    std::int64_t bias_stride;
    const float* factors;  // of the bias, of rows
    const RowTile* tiles;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFactorsBytes; }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    const RowTile tile = p.tiles[t.block(0)];
    if (tile.group < 0) return;
    const std::int64_t begin = t.block(1) * kSide;
    const T* in = p.in + tile.begin * p.in_stride;
    const T* weight = p.weight + tile.group * p.weight_stride;
    float sum[4][4] = {};
    if constexpr (!kTransposed) {
      multiply_rows(t, in, p.in_stride, tile.rows, weight + begin * p.depth, p.depth,
                    p.columns - begin, p.depth, p.packed, left, right, sum);
    } else {
      for (std::int64_t d = 0; d < p.depth; d += kSide) {
        fetch<true>(t, in, p.in_stride, tile.rows, d, p.depth, p.packed, left);
        fetch<false>(t, weight + d * p.columns, p.columns, p.depth - d, begin, p.columns, p.packed,
                     right);
        t.sync();
        const std::int64_t count = p.depth - d < kSide ? p.depth - d : kSide;
        if (row(t) < tile.rows) multiply(t, left, right, static_cast<int>(count), sum);
        t.sync();
      }
    }
    if (p.bias != nullptr) add_bias(t, p, tile, begin, sum);
    store(t, sum, 1.0F, tile.rows, begin, p.columns, p.out + tile.begin * p.out_stride,
          p.out_stride);
  }

  PHALANX_DEVICE static void add_bias(const Thread& t, const Params& p, const RowTile& tile,
                                      std::int64_t begin, float (&sum)[4][4]) {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      if (row(t) + a >= tile.rows) continue;
      const float factor = p.factors == nullptr ? 1.0F : p.factors[tile.begin + row(t) + a];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = begin + column(t) + c;
        if (i >= p.columns) continue;
        sum[a][c] = fma_of(factor, to_float(p.bias[tile.group * p.bias_stride + i]), sum[a][c]);
      }
    }
  }
};

// dweight (+)= dy^T x of a group: 64 x 64 numbers of its matrix.
template <typename T>
struct GroupedWeightGradientKernel : AttentionTile {
  struct Params {
    float* dweight;
    const T* dy;
    const T* x;
    std::int64_t weight_stride;
    std::int64_t dy_stride;
    std::int64_t x_stride;
    std::int64_t n;
    std::int64_t k;
    RowGroups groups;
    bool accumulate;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFactorsBytes; }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    float* left = t.template shared<float>(kNumbers);
    float* right = t.template shared<float>(kNumbers);
    const std::int64_t n = t.block(1) * kSide;
    const std::int64_t k = t.block(0) * kSide;
    const std::int64_t group = t.block(2);
    const std::int64_t end = p.groups.offset(group + 1);
    float sum[4][4] = {};
    for (std::int64_t r = p.groups.offset(group); r < end; r += kSide) {
      fetch<false>(t, p.dy + r * p.dy_stride, p.dy_stride, end - r, n, p.n, p.packed, left);
      fetch<false>(t, p.x + r * p.x_stride, p.x_stride, end - r, k, p.k, p.packed, right);
      t.sync();
      multiply(t, left, right, static_cast<int>(end - r < kSide ? end - r : kSide), sum);
      t.sync();
    }
    float* to = p.dweight + group * p.weight_stride + n * p.k;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = k + column(t) + c;
        if (n + row(t) + a >= p.n || i >= p.k) continue;
        float& element = to[(row(t) + a) * p.k + i];
        element = p.accumulate ? element + sum[a][c] : sum[a][c];
      }
    }
  }
};

// dbias (+)= the sum of factor dy over a group's rows, in their order: a thread has a column.
template <typename T>
struct GroupedBiasGradientKernel {
  static constexpr int kThreads = 128;
  struct Params {
    float* dbias;
    const T* dy;
    const float* factors;
    std::int64_t dbias_stride;
    std::int64_t dy_stride;
    std::int64_t columns;
    RowGroups groups;
    bool accumulate;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t c = t.block(0) * kThreads + t.index();
    if (c >= p.columns) return;
    const std::int64_t group = t.block(1);
    const std::int64_t end = p.groups.offset(group + 1);
    float sum = 0.0F;
#pragma unroll 8
    for (std::int64_t r = p.groups.offset(group); r < end; ++r) {
      sum = fma_of(p.factors == nullptr ? 1.0F : p.factors[r], to_float(p.dy[r * p.dy_stride + c]),
                   sum);
    }
    float& to = p.dbias[group * p.dbias_stride + c];
    to = p.accumulate ? to + sum : sum;
  }
};

// dots[r] += dy[r] . bias of r's group: a warp has a row.
template <typename T>
struct GroupedBiasDotsKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kRows = kThreads / 32;  // of a block
  struct Params {
    float* dots;
    const T* dy;
    const T* bias;
    std::int64_t dy_stride;
    std::int64_t bias_stride;
    std::int64_t columns;
    RowGroups groups;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = t.block() * kRows + t.warp();
    if (r >= p.groups.rows) return;
    const std::int64_t group = p.groups.group_of(r);
    if (group < 0) return;
    const float sum =
        warp_dot(t, p.dy + r * p.dy_stride, p.bias + group * p.bias_stride, p.columns, p.packed);
    if (t.lane() == 0) p.dots[r] += sum;
  }
};

}  // namespace phalanx::cuda
