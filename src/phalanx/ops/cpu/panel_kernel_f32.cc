// Tiles of fp32 by Highway.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/panel_kernel_f32.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/panel_kernels.h"
#include "phalanx/ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

template <Left kLeft, int kVectors>
void run_tile(const TileOperands& tile) {
  const std::int64_t lanes = lane_count();
  float* to = tile.sums;
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(to + r * tile.sums_stride + v * lanes, 1, 3);
    }
  }
  auto sums = tile_product<kLeft, kTileRows, kVectors>(
      tile.depth, reinterpret_cast<const float*>(tile.left), tile.left_stride,
      reinterpret_cast<const float*>(tile.right), tile.right_stride,
      reinterpret_cast<const float*>(tile.next_left));
  if (tile.add) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums.at[r][v] = hn::Add(load(to + r * tile.sums_stride + v * lanes), sums.at[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      store(sums.at[r][v], to + r * tile.sums_stride + v * lanes);
    }
  }
}

template <Left kLeft>
constexpr std::array<TileFunction, PanelKernel::kMostWidths> tiles() {
  return {run_tile<kLeft, 1>, run_tile<kLeft, 2>,
          kTileVectors > 2 ? run_tile<kLeft, kTileVectors> : nullptr};
}

// A constant, because processors without the target also read its sizes.
constexpr PanelKernel kF32Kernel{.name = HWY_STR(HWY_NAMESPACE),
                                 .operand = DType::kF32,
                                 .group = 1,
                                 .depth_step = 1,
                                 .rows = kTileRows,
                                 .width = static_cast<int>(kMaxLanes),
                                 .widths = kTileVectors,
                                 .left_columns = true,
                                 .tiles = {tiles<Left::kRows>(), tiles<Left::kColumns>()}};

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

const PanelKernel& panel_kernel_f32(Target target) {
#if (HWY_TARGETS & HWY_AVX3) != 0
  if (target >= Target::kAvx512) return N_AVX3::kF32Kernel;
#endif
#if (HWY_TARGETS & HWY_AVX2) != 0
  if (target >= Target::kAvx2) return N_AVX2::kF32Kernel;
#endif
  PHALANX_CHECK(target == Target::kScalar, "this build has no kernels of {}", name_of(target));
  return HWY_STATIC_DISPATCH(kF32Kernel);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
