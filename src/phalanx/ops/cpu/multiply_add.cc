#include "phalanx/ops/cpu/multiply_add.h"

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/multiply_add.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "hwy/highway.h"

#ifndef PHALANX_OPS_CPU_MULTIPLY_ADD_CC_
#define PHALANX_OPS_CPU_MULTIPLY_ADD_CC_
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <array>
#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"
namespace phalanx::cpu {
// Enough independent sums to keep two units with a latency of four cycles busy.
inline constexpr int kSums = 12;
inline constexpr int kRounds = 20000;
}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

double run_f32() {
  const hn::ScalableTag<float> tag;
  const auto factor = hn::Set(tag, 0.999F);
  const auto term = hn::Set(tag, 0.001F);
  hn::Vec<decltype(tag)> sums[kSums];
  // The sums differ, because equal sums would be computed once.
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(tag, 0.1F * static_cast<float>(i));
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = hn::MulAdd(sum, factor, term);
  }
  auto total = sums[0];
  for (int i = 1; i < kSums; ++i) total = hn::Add(total, sums[i]);
  [[maybe_unused]] const volatile float kept = hn::GetLane(hn::SumOfLanes(tag, total));
  return 2.0 * kSums * kRounds * static_cast<double>(hn::Lanes(tag));
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(run_f32);

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) double multiply_adds_bf16() {
  const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f00));
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(0.1F * static_cast<float>(i));
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kSums; ++i) total = _mm512_add_ps(total, sums[i]);
  [[maybe_unused]] const volatile float kept = _mm512_cvtss_f32(total);
  return 64.0 * kSums * kRounds;
}

// The layout of tiles, palette 1. g++ 12 does not know how much ldtilecfg and tileloadd read and
// drops stores before them, so they read constants. The layout stays loaded: kernels use the same
// one, and this thread may have loaded it already.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr TileConfig kTileConfig;
constexpr int kTileRows = 16, kTileRowBytes = 64;
constexpr double kTileFlops = 2.0 * kTileRows * kTileRows * (kTileRowBytes / 2);

__attribute__((target("amx-tile,amx-bf16"))) double multiply_adds_amx() {
  constexpr int kTileRounds = 1000, kTileSums = 6;
  alignas(64) static constexpr std::uint16_t kFactors[kTileRows * kTileRowBytes / 2] = {};
  _tile_loadconfig(&kTileConfig);
  // Tile numbers must be literals: 0 to 5 hold sums, 6 and 7 factors.
  _tile_loadd(6, kFactors, kTileRowBytes);
  _tile_loadd(7, kFactors, kTileRowBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int round = 0; round < kTileRounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  return kTileFlops * kTileSums * kTileRounds;
}

// Two operands of 32 lines by 256 depths, in tiles. Both fit into the first-level cache.
struct RandomTiles {
  static constexpr int kSteps = 8, kStepBytes = 2 * kTileRows * kTileRowBytes;

  alignas(64) std::array<bfloat16, kSteps * kStepBytes / 2> left, right;

  RandomTiles() {
    std::uint32_t state = 1;
    const auto next = [&state] {
      state = state * 1664525U + 1013904223U;
      return to_bfloat16(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F);
    };
    for (bfloat16& x : left) x = next();
    for (bfloat16& x : right) x = next();
  }
};

__attribute__((target("amx-tile,amx-bf16"))) double multiply_adds_loaded_amx() {
  constexpr int kPasses = 500, kHalf = RandomTiles::kStepBytes / 2;
  static const RandomTiles tiles;
  asm volatile("" ::: "memory");
  _tile_loadconfig(&kTileConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto* left = reinterpret_cast<const std::byte*>(tiles.left.data());
    const auto* right = reinterpret_cast<const std::byte*>(tiles.right.data());
    for (int step = 0; step < RandomTiles::kSteps; ++step) {
      _tile_loadd(6, right, kTileRowBytes);
      _tile_loadd(4, left, kTileRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, left + kHalf, kTileRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_loadd(7, right + kHalf, kTileRowBytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
      left += RandomTiles::kStepBytes;
      right += RandomTiles::kStepBytes;
    }
  }
  return kTileFlops * 4 * RandomTiles::kSteps * kPasses;
}
#else
double multiply_adds_bf16() {
  PHALANX_CHECK(false, "this machine has no bf16 dot product");
  return 0.0;
}

double multiply_adds_amx() {
  PHALANX_CHECK(false, "this machine has no tiles");
  return 0.0;
}

double multiply_adds_loaded_amx() { return multiply_adds_amx(); }
#endif

double multiply_adds_f32() { return HWY_DYNAMIC_DISPATCH(run_f32)(); }

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
