// Tiles of bf16 by AVX512_BF16, whose dot product of pairs adds to an fp32 sum. Highway has no such
// op, so these are intrinsics.

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/panel_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phalanx::cpu {

#if defined(__x86_64__)
namespace {

constexpr int kBf16Rows = 8;
constexpr int kBf16Lanes = 16;
// Groups of depth between prefetches: a cache line of a row.
constexpr std::int64_t kBf16Line = 16;

// Pairs are adjacent in both layouts of the left operand; only the strides differ.
template <Left kLeft, int kVectors>
__attribute__((target("avx512f,avx512bf16"))) void run_tile(const TileOperands& tile) {
  constexpr bool kByRows = kLeft == Left::kRows;
  const auto* left = reinterpret_cast<const float*>(tile.left);
  const auto* right = reinterpret_cast<const float*>(tile.right);
  const auto* next = reinterpret_cast<const float*>(tile.next_left);
  const std::int64_t step = kByRows ? 1 : tile.left_stride;
  const std::int64_t row_stride = kByRows ? tile.left_stride : 1;
  __m512 sums[kBf16Rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kBf16Rows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(tile.sums + r * tile.sums_stride + v * kBf16Lanes, 1, 3);
      sums[r][v] = _mm512_setzero_ps();
    }
  }
  for (std::int64_t i = 0; i < tile.depth; ++i) {
    if (i % kBf16Line == 0) {
#pragma GCC unroll 16
      for (int r = 0; r < kBf16Rows; ++r) {
        __builtin_prefetch(kByRows ? next + r * tile.left_stride : next + 2 * r * tile.left_stride,
                           0, 3);
      }
      next += kBf16Line * step;
    }
    __m512bh row[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      row[v] = reinterpret_cast<__m512bh>(_mm512_loadu_ps(right + v * kBf16Lanes));
    }
#pragma GCC unroll 16
    for (int r = 0; r < kBf16Rows; ++r) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_ps(left[r * row_stride]));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pair, row[v]);
    }
    left += step;
    right += tile.right_stride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kBf16Rows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      float* to = tile.sums + r * tile.sums_stride + v * kBf16Lanes;
      if (tile.add) sums[r][v] = _mm512_add_ps(_mm512_loadu_ps(to), sums[r][v]);
      _mm512_storeu_ps(to, sums[r][v]);
    }
  }
}

template <Left kLeft>
constexpr std::array<TileFunction, PanelKernel::kMostWidths> tiles() {
  return {run_tile<kLeft, 1>, run_tile<kLeft, 2>, run_tile<kLeft, 3>};
}

constexpr PanelKernel kBf16Kernel{.name = "AVX512_BF16",
                                  .operand = DType::kBF16,
                                  .group = 2,
                                  .depth_step = 1,
                                  .rows = kBf16Rows,
                                  .width = kBf16Lanes,
                                  .widths = 3,
                                  .left_columns = true,
                                  .tiles = {tiles<Left::kRows>(), tiles<Left::kColumns>()}};

}  // namespace

const PanelKernel& panel_kernel_bf16() { return kBf16Kernel; }

#else

const PanelKernel& panel_kernel_bf16() {
  PHALANX_CHECK(false, "this processor has no dot product of bf16");
  return panel_kernel_f32(Target::kScalar);
}

#endif

}  // namespace phalanx::cpu
