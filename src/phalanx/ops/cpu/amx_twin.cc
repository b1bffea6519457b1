// Tiles of family `amx2` in plain C++: the bits of the instructions, for tests on processors
// without them.

#include "phalanx/ops/cpu/amx_twin.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

// Element `i` of packed bf16.
float element(const std::byte* from, std::int64_t i) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from + i * 2, sizeof bits);
  return twin_flushed(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

}  // namespace

void multiply_registers(const RegisterProduct& p) {
  float b[kTwinSide][kStepDepth];  // by column of the sums
  for (std::int64_t pair = 0; pair < kTwinSide; ++pair) {
    for (std::int64_t i = 0; i < 2 * kTwinSide; ++i) {
      b[i / 2][2 * pair + i % 2] = element(p.right + pair * p.right_stride, i);
    }
  }
  for (std::int64_t row = 0; row < kTwinSide; ++row) {
    float a[kStepDepth];
    for (std::int64_t i = 0; i < kStepDepth; ++i) a[i] = element(p.left + row * p.left_stride, i);
    for (std::int64_t column = 0; column < kTwinSide; ++column) {
      float even = 0.0F, odd = 0.0F;
      for (std::int64_t i = 0; i < kStepDepth; i += 2) {
        even = twin_multiply_add(a[i], b[column][i], even);
        odd = twin_multiply_add(a[i + 1], b[column][i + 1], odd);
      }
      float& sum = p.sums[row * p.sums_stride + column];
      sum = twin_add(sum, twin_add(even, odd));
    }
  }
}

namespace {

void sum_step(float* sums, const TileRun& run, const std::byte* left, const std::byte* right) {
  for (int lower = 0; lower < 2; ++lower) {
    for (int second = 0; second < 2; ++second) {
      multiply_registers({.sums = sums + lower * kTileSums / 2 + second * kRegisterRows,
                          .sums_stride = kTileSide,
                          .left = left + lower * run.left_half,
                          .left_stride = run.left_stride,
                          .right = right + second * run.steps * kRegisterBytes,
                          .right_stride = kRegisterBytes / kRegisterRows});
    }
  }
}

void run_tiles(const TileRun& run, TileState& state) {
  for (std::int64_t i = 0; i < run.count; ++i) {
    finish_pending(state);
    float* sums = run.after != nullptr ? run.after + i * kTileSums : state.buffers;
    if (run.before == nullptr) {
      std::fill_n(sums, kTileSums, 0.0F);
    } else {
      std::copy_n(run.before + i * kTileSums, kTileSums, sums);
    }
    const std::byte* right = run.right + i * packed_panel_bytes(run.steps);
    const bool backwards = goes_backwards(run, i);
    for (std::int64_t k = 0; k < run.steps; ++k) {
      const std::int64_t step = backwards ? run.steps - 1 - k : k;
      sum_step(sums, run, run.left + step * run.left_step, right + step * kRegisterBytes);
    }
    if (run.after == nullptr) state.pending = pending_tile(run, i, sums);
  }
}

void do_nothing() {}

constexpr TileKernel kTwin{.prepare = do_nothing, .release = do_nothing, .run = run_tiles};

}  // namespace

const TileKernel& tile_kernel_twin() { return kTwin; }

}  // namespace phalanx::cpu
