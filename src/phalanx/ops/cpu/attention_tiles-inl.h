// What the tiles of attention are made of: small matrix products, transposes, exponentials, and
// the scores of a tile. Included once per target.
//
// A tile of scores is [keys][lanes], the lanes being the query rows of a block; "lanes" of a
// [rows][width] matrix are its transpose, [width][32].

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "phalanx/ops/cpu/attention_geometry.h"
#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ATTENTION_TILES_INL_H_
#undef PHALANX_OPS_CPU_ATTENTION_TILES_INL_H_
#else
#define PHALANX_OPS_CPU_ATTENTION_TILES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.693147180559945309417F;

// ---- Products

// The left operand is stored as its rows, [m][depth], or as its columns, [depth][m].
enum class Left { kRows, kColumns };
enum class Into { kOverwrite, kAdd, kRescale };

struct Matrix {
  const float* data;
  std::int64_t stride;
};

// Accumulators of R rows and C vectors stay in registers: 16 of 32 with AVX-512, else 8 of 16.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kRegisterRows = 8;
#else
inline constexpr int kRegisterRows = 4;
#endif
inline constexpr int kRegisterVectors = 2;

template <Left kLeft, Into kInto, int kVectors>
HWY_INLINE void product_block(std::int64_t depth, Matrix left, Matrix right, float* result,
                              std::int64_t stride, const float* factor) {
  const FloatTag d;
  const std::int64_t step = lane_count();
  FloatVector sums[kRegisterRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRegisterRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::Zero(d);
  }
  const float* a = left.data;
  const float* b = right.data;
  for (std::int64_t i = 0; i < depth; ++i) {
    FloatVector row[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) row[c] = load(b + c * step);
#pragma GCC unroll 8
    for (int r = 0; r < kRegisterRows; ++r) {
      const auto scalar = hn::Set(d, kLeft == Left::kRows ? a[r * left.stride] : a[r]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::MulAdd(scalar, row[c], sums[r][c]);
    }
    a += kLeft == Left::kRows ? 1 : left.stride;
    b += right.stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRegisterRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      float* at = result + r * stride + c * step;
      if constexpr (kInto == Into::kAdd) sums[r][c] = hn::Add(load(at), sums[r][c]);
      if constexpr (kInto == Into::kRescale) {
        sums[r][c] = hn::MulAdd(load(at), load(factor + c * step), sums[r][c]);
      }
      store(sums[r][c], at);
    }
  }
}

// result[m][n] = left right, added to what is there or to that times factor[n]. m counts in
// kKeyGroup, n in vectors.
template <Left kLeft, Into kInto>
HWY_NOINLINE void product(std::int64_t m, std::int64_t n, std::int64_t depth, Matrix left,
                          Matrix right, float* result, std::int64_t stride,
                          const float* factor = nullptr) {
  const std::int64_t panel = kRegisterVectors * lane_count();
  const std::int64_t row_step = kLeft == Left::kRows ? left.stride : 1;
  std::int64_t column = 0;
  const auto rows = [&](auto vectors) HWY_ATTR {
    const Matrix columns{right.data + column, right.stride};
    for (std::int64_t row = 0; row < m; row += kRegisterRows) {
      product_block<kLeft, kInto, decltype(vectors)::value>(
          depth, {left.data + row * row_step, left.stride}, columns, result + row * stride + column,
          stride, factor + column);
    }
  };
  for (; column + panel <= n; column += panel) rows(Index<kRegisterVectors>());
  for (; column < n; column += lane_count()) rows(Index<1>());
}

// ---- Transposes

#if HWY_TARGET != HWY_SCALAR
// Four floats from every fourth row: block j of the vector is row 4 j.
using QuarterTag = hn::CappedTag<float, 4>;
using HalvesTag = hn::CappedTag<float, 8>;
HWY_INLINE hn::Vec<HalvesTag> load_two(const float* from, std::int64_t stride) {
  return hn::Combine(HalvesTag(), hn::LoadU(QuarterTag(), from + 4 * stride),
                     hn::LoadU(QuarterTag(), from));
}
HWY_INLINE void store_two(hn::Vec<HalvesTag> value, float* to, std::int64_t stride) {
  hn::StoreU(hn::LowerHalf(QuarterTag(), value), QuarterTag(), to);
  hn::StoreU(hn::UpperHalf(QuarterTag(), value), QuarterTag(), to + 4 * stride);
}
#if HWY_TARGET == HWY_AVX3
HWY_INLINE FloatVector load_every_fourth(const float* from, std::int64_t stride) {
  return hn::Combine(FloatTag(), load_two(from + 8 * stride, stride), load_two(from, stride));
}
HWY_INLINE void store_every_fourth(FloatVector value, float* to, std::int64_t stride) {
  store_two(hn::LowerHalf(HalvesTag(), value), to, stride);
  store_two(hn::UpperHalf(HalvesTag(), value), to + 8 * stride, stride);
}
#else
HWY_INLINE FloatVector load_every_fourth(const float* from, std::int64_t stride) {
  return load_two(from, stride);
}
HWY_INLINE void store_every_fourth(FloatVector value, float* to, std::int64_t stride) {
  store_two(value, to, stride);
}
#endif

// The 4 x 4 blocks of four vectors, transposed each.
HWY_INLINE void transpose_blocks(FloatVector (&v)[4]) {
  const FloatTag d;
  const hn::RepartitionToWide<FloatTag> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}
#endif

// lanes[i][lane] = factor * rows[lane][i] for i < width, a multiple of 4, and the first `count`
// lanes, in vectors.
inline void rows_to_lanes(const float* rows, std::int64_t stride, std::int64_t width,
                          std::int64_t count, float factor, float* lanes) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t lane = 0; lane < count; ++lane) {
      lanes[i * kBlockRows + lane] = factor * rows[lane * stride + i];
    }
  }
#else
  const auto scale = hn::Set(FloatTag(), factor);
  for (std::int64_t lane = 0; lane < count; lane += lane_count()) {
    for (std::int64_t i = 0; i < width; i += 4) {
      FloatVector v[4];
      for (int r = 0; r < 4; ++r) v[r] = load_every_fourth(rows + (lane + r) * stride + i, stride);
      transpose_blocks(v);
      for (int r = 0; r < 4; ++r) {
        store(hn::Mul(scale, v[r]), lanes + (i + r) * kBlockRows + lane);
      }
    }
  }
#endif
}

// rows[lane][i] = factor[lane] * lanes[i][lane].
inline void lanes_to_rows(const float* lanes, std::int64_t width, std::int64_t count,
                          const float* factor, float* rows, std::int64_t stride) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t lane = 0; lane < count; ++lane) {
    for (std::int64_t i = 0; i < width; ++i) {
      rows[lane * stride + i] = factor[lane] * lanes[i * kBlockRows + lane];
    }
  }
#else
  for (std::int64_t lane = 0; lane < count; lane += lane_count()) {
    const auto scale = load(factor + lane);
    for (std::int64_t i = 0; i < width; i += 4) {
      FloatVector v[4];
      for (int r = 0; r < 4; ++r) {
        v[r] = hn::Mul(scale, load(lanes + (i + r) * kBlockRows + lane));
      }
      transpose_blocks(v);
      for (int r = 0; r < 4; ++r) {
        store_every_fourth(v[r], rows + (lane + r) * stride + i, stride);
      }
    }
  }
#endif
}

// ---- Rows of storage and of packed tiles

HWY_INLINE void fill(float* to, std::int64_t count, float value) {
  std::fill(to, to + count, value);
}

// One row of `width` elements as floats, zeros up to the stride.
HWY_INLINE void load_row(DType dtype, const std::byte* from, std::int64_t width, float* to,
                         std::int64_t stride) {
  with_storage(dtype, [=](auto type) HWY_ATTR {
    const auto* row = reinterpret_cast<const decltype(type)*>(from);
    for_vectors(0, width, [=](std::int64_t i, auto lanes) HWY_ATTR {
      store(lanes.load(row + i), to + i);  // the stride has room for a whole vector
    });
  });
  for (std::int64_t i = round_up(width, lane_count()); i < stride; i += lane_count()) {
    store(hn::Zero(FloatTag()), to + i);
  }
}
HWY_INLINE void store_row(const float* from, std::int64_t width, DType dtype, std::byte* to) {
  with_storage(dtype, [=](auto type) HWY_ATTR {
    auto* row = reinterpret_cast<decltype(type)*>(to);
    for_vectors(0, width,
                [=](std::int64_t i, auto lanes) HWY_ATTR { lanes.store(load(from + i), row + i); });
  });
}

// The lanes that hold rows, in whole vectors.
HWY_INLINE std::int64_t lanes_of(const QueryBlock& block) {
  return round_up(block.count, lane_count());
}

// [lanes][stride]; zeros past the block's rows.
HWY_INLINE void load_block_rows(const QueryBlock& block, const HeadRows& from, std::int64_t width,
                                float* to, std::int64_t stride) {
  for (int lane = 0; lane < block.count; ++lane) {
    load_row(from.dtype(), block.row(from, lane), width, to + lane * stride, stride);
  }
  fill(to + block.count * stride, (lanes_of(block) - block.count) * stride, 0.0F);
}
HWY_INLINE void store_block_rows(const float* from, std::int64_t stride, const QueryBlock& block,
                                 const HeadRows& to, std::int64_t width) {
  for (int lane = 0; lane < block.count; ++lane) {
    store_row(from + lane * stride, width, to.dtype(), block.row(to, lane));
  }
}

// [64][stride]; zeros for padding, whatever lies there.
HWY_INLINE void load_tile_rows(const KeyTile& tile, const HeadRows& from, std::int64_t sample,
                               std::int64_t group, std::int64_t width, float* to,
                               std::int64_t stride) {
  for (int i = 0; i < kKeyTile; ++i, to += stride) {
    if (tile.document[static_cast<std::size_t>(i)] < 0) {
      fill(to, stride, 0.0F);
    } else {
      load_row(from.dtype(), from.at(tile.first + i, sample, group), width, to, stride);
    }
  }
}

// ---- Exponentials

// 2^f for |f| <= 1/2: the polynomial through 7 Chebyshev nodes, relative error below 3e-9.
inline constexpr float kExpTwo[7] = {1.0F,           0.693147207F,   0.240226509F,   0.0555032723F,
                                     0.00961805668F, 0.00134004282F, 0.000154614447F};

// 2^x to 1e-7 for x <= 0; exactly 0 below -126 (and at -infinity). NaN stays NaN: its payload makes
// any number of the exponent, but times a NaN.
HWY_INLINE FloatVector exp_two(FloatVector x) {
  const FloatTag d;
  const BitsTag bits;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
  const auto shift = hn::Set(d, 12582912.0F);
  const auto shifted = hn::Add(x, shift);
  const auto fraction = hn::Sub(x, hn::Sub(shifted, shift));
  auto power = hn::Set(d, kExpTwo[6]);
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[5]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[4]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[3]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[2]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[1]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[0]));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  const auto scale = hn::BitCast(d, hn::Add(hn::BitCast(bits, hn::Set(d, 1.0F)), exponent));
  const auto result = hn::Mul(power, scale);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), result);
}

// What to subtract from scores whose maximum this is: no row of -infinity may become NaN.
HWY_INLINE FloatVector finite_or_zero(FloatVector maximum) {
  const FloatTag d;
  return hn::IfThenElseZero(hn::Ne(maximum, hn::Set(d, -kInfinity)), maximum);
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
