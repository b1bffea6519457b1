#pragma once
// Products of groups, ops/grouped_linear.h, of 16-bit types on tensor cores. Widths and strides are
// whole chunks of 16 bytes, addresses multiples of it. A row's bits depend neither on other rows
// nor on other groups, nor on the tile that has it.

#include "phalanx/ops/cuda/groups-inl.h"
#include "phalanx/ops/cuda/mma_product-inl.h"

namespace phalanx::cuda {

// out = in W^T (+ bias) or, kTransposed, in W: kRows rows of a group by 128 columns.
template <typename T, int kRows, bool kTransposed>
struct GroupedMmaProductKernel {
  static constexpr std::int64_t kColumns = 128;
  using Product = MmaProduct<T, kRows, kColumns, true, !kTransposed>;
  static constexpr int kThreads = Product::kThreads;
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
    RowGroups groups;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return Product::kNumbers * static_cast<std::int64_t>(sizeof(T));
  }

  // Blocks of one tile of rows are neighbours: they read the weight of one group.
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    T* memory = t.template shared<T>(Product::kNumbers);
    const RowTile tile = p.groups.template tile<kRows>(t, t.block(1));
    if (tile.group < 0) return;
    const std::int64_t begin = t.block(0) * kColumns;
    const T* weight = p.weight + tile.group * p.weight_stride;
    const MmaFactor<T> left{p.in + tile.begin * p.in_stride, p.in_stride, tile.rows};
    const MmaFactor<T> right =
        kTransposed ? MmaFactor<T>{weight + begin, p.columns, p.columns - begin}
                    : MmaFactor<T>{weight + begin * p.depth, p.depth, p.columns - begin};
    typename Product::Sums sums = {};
    Product::run(t, left, right, p.depth, memory, sums);
    if (p.bias != nullptr) add_bias(t, p, tile, begin, sums);

      // Rounded numbers meet in shared memory, so that rows are stored in chunks of 16 bytes.
#pragma unroll
    for (int i = 0; i < Product::kRowBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = Product::row(t, i, e);
#pragma unroll
        for (int j = 0; j < Product::kColumnBlocks; ++j) {
          const int column = Product::column(t, j);
          *reinterpret_cast<std::uint32_t*>(memory + place(row, column / 8) + column % 8) =
              pack_two<T>(sums[i][j][2 * e], sums[i][j][2 * e + 1]);
        }
      }
    }
    t.sync();
    constexpr int kChunks = kColumns / 8;
    const int chunk = t.index() % kChunks;
    if (begin + chunk * 8 >= p.columns) return;
    T* out = p.out + tile.begin * p.out_stride + begin + chunk * 8;
    for (int row = t.index() / kChunks; row < tile.rows; row += kThreads / kChunks) {
      store_pack<8>(out + row * p.out_stride, load_pack<8>(memory + place(row, chunk)));
    }
  }

 private:
  // Of a chunk of the result in shared memory.
  PHALANX_DEVICE static int place(int row, int chunk) {
    return row * static_cast<int>(kColumns) + (chunk ^ (row % 8)) * 8;
  }
  PHALANX_DEVICE static void add_bias(const Thread& t, const Params& p, const RowTile& tile,
                                      std::int64_t begin, typename Product::Sums& sums) {
    const T* bias = p.bias + tile.group * p.bias_stride;
#pragma unroll
    for (int j = 0; j < Product::kColumnBlocks; ++j) {
      const std::int64_t column = begin + Product::column(t, j);
      // Columns are even in number.
      const bool valid = column < p.columns;
      const float low = valid ? to_float(bias[column]) : 0.0F;
      const float high = valid ? to_float(bias[column + 1]) : 0.0F;
#pragma unroll
      for (int i = 0; i < Product::kRowBlocks; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = Product::row(t, i, e);
          const bool has_factor = p.factors != nullptr && row < tile.rows;
          const float factor = has_factor ? p.factors[tile.begin + row] : 1.0F;
          sums[i][j][2 * e] = fma_of(factor, low, sums[i][j][2 * e]);
          sums[i][j][2 * e + 1] = fma_of(factor, high, sums[i][j][2 * e + 1]);
        }
      }
    }
  }
};

// dweight (+)= dy^T x of a group: 128 x 128 numbers of its matrix.
template <typename T>
struct GroupedMmaWeightGradientKernel {
  static constexpr std::int64_t kSide = 128;
  using Product = MmaProduct<T, kSide, kSide, false, false>;
  static constexpr int kThreads = Product::kThreads;
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
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return Product::kNumbers * static_cast<std::int64_t>(sizeof(T));
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    T* memory = t.template shared<T>(Product::kNumbers);
    const std::int64_t n = t.block(1) * kSide;
    const std::int64_t k = t.block(0) * kSide;
    const std::int64_t group = t.block(2);
    const std::int64_t begin = p.groups.offset(group);
    const std::int64_t rows = p.groups.offset(group + 1) - begin;
    if (rows <= 0 && p.accumulate) return;
    typename Product::Sums sums = {};
    if (rows > 0) {
      Product::run(t, {p.dy + begin * p.dy_stride + n, p.dy_stride, p.n - n},
                   {p.x + begin * p.x_stride + k, p.x_stride, p.k - k}, rows, memory, sums);
    }
    if (n + kSide <= p.n && k + kSide <= p.k) {
      put<true>(t, p, group, n, k, sums);
    } else {
      put<false>(t, p, group, n, k, sums);
    }
  }

 private:
  // What 16 rows of a warp are added to is loaded before the first is stored, so that a thread
  // waits once for it. kWhole: all numbers of the tile exist.
  template <bool kWhole>
  PHALANX_DEVICE static void put(const Thread& t, const Params& p, std::int64_t group,
                                 std::int64_t n, std::int64_t k,
                                 const typename Product::Sums& sums) {
    float* const to = p.dweight + group * p.weight_stride + n * p.k + k + Product::column(t, 0);
    const auto has_row = [&](int i, int e) { return kWhole || n + Product::row(t, i, e) < p.n; };
    const auto has_column = [&](int j) { return kWhole || k + Product::column(t, j) < p.k; };
    const auto place = [&](int i, int e) { return std::int64_t{Product::row(t, i, e)} * p.k; };
#pragma unroll
    for (int i = 0; i < Product::kRowBlocks; ++i) {
      Pack<float, 2> all[2][Product::kColumnBlocks] = {};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (!p.accumulate || !has_row(i, e)) continue;
        const float* const first = to + place(i, e);
#pragma unroll
        for (int j = 0; j < Product::kColumnBlocks; ++j) {
          if (has_column(j)) all[e][j] = load_pack<2>(first + 8 * j);
        }
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (!has_row(i, e)) continue;
        float* const first = to + place(i, e);
#pragma unroll
        for (int j = 0; j < Product::kColumnBlocks; ++j) {
          all[e][j].at[0] += sums[i][j][2 * e];
          all[e][j].at[1] += sums[i][j][2 * e + 1];
          if (has_column(j)) store_pack<2>(first + 8 * j, all[e][j]);
        }
      }
    }
  }
};

}  // namespace phalanx::cuda
