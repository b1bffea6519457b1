// Tiles of family `amx2` in plain C++: the bits of the instructions, for tests on processors
// without them.

#include "phalanx/ops/cpu/amx_twin.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

#if defined(__x86_64__)
// Without the instruction a fused multiply-add is a call of the library.
#define PHALANX_FMA __attribute__((target("avx2,fma")))
#endif

// Elements of packed bf16: the even ones and the odd ones.
inline void split(const std::byte* from, float* even, float* odd) {
  for (std::int64_t i = 0; i < kTwinSide; ++i) {
    std::uint32_t pair = 0;
    std::memcpy(&pair, from + i * 4, sizeof pair);
    even[i] = twin_flushed(std::bit_cast<float>(pair << 16U));
    odd[i] = twin_flushed(std::bit_cast<float>(pair & 0xffff0000U));
  }
}

// All columns of a row of sums at a time.
__attribute__((always_inline)) inline void multiply_rows(const RegisterProduct& p) {
  float even_right[kTwinSide][kTwinSide], odd_right[kTwinSide][kTwinSide];  // [pair][column]
  for (std::int64_t pair = 0; pair < kTwinSide; ++pair) {
    split(p.right + pair * p.right_stride, even_right[pair], odd_right[pair]);
  }
  for (std::int64_t row = 0; row < kTwinSide; ++row) {
    float even_left[kTwinSide], odd_left[kTwinSide];
    split(p.left + row * p.left_stride, even_left, odd_left);
    float even[kTwinSide] = {}, odd[kTwinSide] = {};
    for (std::int64_t pair = 0; pair < kTwinSide; ++pair) {
      for (std::int64_t i = 0; i < kTwinSide; ++i) {
        even[i] = twin_multiply_add(even_left[pair], even_right[pair][i], even[i]);
        odd[i] = twin_multiply_add(odd_left[pair], odd_right[pair][i], odd[i]);
      }
    }
    float* const sums = p.sums + row * p.sums_stride;
    for (std::int64_t i = 0; i < kTwinSide; ++i)
      sums[i] = twin_add(sums[i], twin_add(even[i], odd[i]));
  }
}

#if defined(PHALANX_FMA)
PHALANX_FMA void multiply_rows_fused(const RegisterProduct& p) { multiply_rows(p); }
#endif

}  // namespace

void multiply_registers(const RegisterProduct& p) {
#if defined(PHALANX_FMA)
  static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_fma) return multiply_rows_fused(p);
#endif
  multiply_rows(p);
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
