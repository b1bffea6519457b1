// Tiles of bf16 by AMX. A register has 16 rows of 64 bytes. Two rows by two columns of registers
// make a tile of 32 x 32 sums (or 32 x 16).

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/panel_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phalanx::cpu {

#if defined(__x86_64__)
namespace {

constexpr int kSide = 16;  // rows of a register; groups in a row

// The configuration of the tile registers.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
static_assert(sizeof(TileConfig) == 64);

// A constant, because GCC 12 does not know what the instruction reads and drops stores before it.
constexpr TileConfig kConfig;

__attribute__((target("amx-tile"))) void prepare() { _tile_loadconfig(&kConfig); }
// Other code configures tiles differently, and a thread without tiles is switched faster.
__attribute__((target("amx-tile"))) void release() { _tile_release(); }

// Packed operands must be in memory, because GCC 12 does not know what tile loads read either.
inline void finish_stores() { asm volatile("" ::: "memory"); }

// Registers 0-3 hold sums, 4-5 the left operand, 6-7 the right one; register numbers must be
// literals. Prefetching the next tile's rows would cost a third of the speed.
template <int kWidths>
__attribute__((target("amx-tile,amx-bf16,avx512f"))) void run_tile(const TileOperands& tile) {
  finish_stores();
  constexpr int kGroup = 4;
  const std::int64_t left_bytes = tile.left_stride * kGroup;
  const std::int64_t right_bytes = tile.right_stride * kGroup;
  const std::int64_t sums_bytes = tile.sums_stride * kGroup;
  float* upper = tile.sums;
  float* lower = tile.sums + kSide * tile.sums_stride;
  if (tile.add) {
    _tile_loadd(0, upper, sums_bytes);
    _tile_loadd(2, lower, sums_bytes);
    if constexpr (kWidths > 1) {
      _tile_loadd(1, upper + kSide, sums_bytes);
      _tile_loadd(3, lower + kSide, sums_bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::byte* left = tile.left;
  const std::byte* right = tile.right;
  for (std::int64_t i = 0; i < tile.depth; i += kSide) {
    _tile_loadd(6, right, right_bytes);
    _tile_loadd(4, left, left_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, left + kSide * left_bytes, left_bytes);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kWidths > 1) {
      _tile_loadd(7, right + kSide * kGroup, right_bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    left += kSide * kGroup;
    right += kSide * right_bytes;
  }
  _tile_stored(0, upper, sums_bytes);
  _tile_stored(2, lower, sums_bytes);
  if constexpr (kWidths > 1) {
    _tile_stored(1, upper + kSide, sums_bytes);
    _tile_stored(3, lower + kSide, sums_bytes);
  }
  finish_stores();
}

constexpr PanelKernel kAmxKernel{
    .name = "AMX",
    .operand = DType::kBF16,
    .group = 2,
    .depth_step = kSide,
    .rows = 2 * kSide,
    .width = kSide,
    .widths = 2,
    .left_columns = false,
    .prepare = prepare,
    .release = release,
    .tiles = {std::array<TileFunction, 3>{run_tile<1>, run_tile<2>, nullptr}, {}}};

}  // namespace

const PanelKernel& panel_kernel_amx() { return kAmxKernel; }

#else

const PanelKernel& panel_kernel_amx() {
  PHALANX_CHECK(false, "this processor has no AMX");
  return panel_kernel_f32(Target::kScalar);
}

#endif

}  // namespace phalanx::cpu
