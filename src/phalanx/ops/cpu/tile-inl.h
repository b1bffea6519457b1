// A tile of a matrix product in registers, in fp32. Included once per target.

#include <cstdint>

#include "phalanx/ops/cpu/panel_kernel.h"
#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_TILE_INL_H_
#undef PHALANX_OPS_CPU_TILE_INL_H_
#else
#define PHALANX_OPS_CPU_TILE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Registers hold kTileRows x kTileVectors sums, a row of the right operand and one number of the
// left: 24 + 3 + 1 of 32 with AVX-512, 12 + 2 + 1 of 16 with AVX2.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 8;
inline constexpr int kTileVectors = 3;
#else
inline constexpr int kTileRows = 6;
inline constexpr int kTileVectors = 2;
#endif

template <int kRows, int kVectors>
struct TileSums {
  FloatVector at[kRows][kVectors];

  HWY_INLINE TileSums() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) at[r][v] = hn::Zero(FloatTag());
    }
  }

  // += left[:, 0] right[0, :].
  template <Left kLeft>
  HWY_INLINE void add_outer_product(const float* left, std::int64_t left_stride, const float* right,
                                    std::int64_t ahead) {
    const FloatTag d;
    FloatVector row[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      row[v] = load(right + v * lane_count());
      __builtin_prefetch(right + ahead + v * lane_count(), 0, 3);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto scalar = hn::Set(d, kLeft == Left::kRows ? left[r * left_stride] : left[r]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) at[r][v] = hn::MulAdd(scalar, row[v], at[r][v]);
    }
  }
};

// Sums left[row, i] right[i, column] over `depth`, from zero, in the order of i. Prefetches the
// next tile's left operand at `next`.
template <Left kLeft, int kRows, int kVectors>
HWY_INLINE TileSums<kRows, kVectors> tile_product(std::int64_t depth, const float* left,
                                                  std::int64_t left_stride, const float* right,
                                                  std::int64_t right_stride, const float* next) {
  // A cache line of a row.
  constexpr std::int64_t kLine = 16;
  constexpr bool kByRows = kLeft == Left::kRows;
  // Hardware prefetches the right operand from the second-level cache too slowly.
  constexpr std::int64_t kAheadRight = 16;
  const std::int64_t step = kByRows ? 1 : left_stride;
  TileSums<kRows, kVectors> sums;
  std::int64_t i = 0;
  for (; i + kLine <= depth; i += kLine) {
    if (kByRows) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) __builtin_prefetch(next + r * left_stride, 0, 3);
    } else {
#pragma GCC unroll 16
      for (int k = 0; k < kLine; k += 2) __builtin_prefetch(next + k * left_stride, 0, 3);
    }
    next += kLine * step;
#pragma GCC unroll 4
    for (int k = 0; k < kLine; ++k) {
      sums.template add_outer_product<kLeft>(left, left_stride, right, kAheadRight * right_stride);
      left += step;
      right += right_stride;
    }
  }
  for (; i < depth; ++i) {
    sums.template add_outer_product<kLeft>(left, left_stride, right, kAheadRight * right_stride);
    left += step;
    right += right_stride;
  }
  return sums;
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
