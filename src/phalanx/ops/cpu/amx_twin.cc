// Tiles of family `amx2` in plain C++: the bits of the instructions, for tests on processors
// without them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

// Subnormal numbers are zeros with their sign.
float flushed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7f800000U) == 0 ? std::bit_cast<float>(bits & 0x80000000U) : x;
}

float add(float a, float b) { return flushed(flushed(a) + flushed(b)); }
float multiply_add(float a, float b, float sum) { return flushed(std::fma(a, b, sum)); }

// Element `i` of packed bf16.
float element(const std::byte* from, std::int64_t i) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from + i * 2, sizeof bits);
  return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

// C[16, 16] += left[16 rows of 32] right[16 pairs of 2 x 16], as tdpbf16ps.
void multiply_registers(float* c, const std::byte* left, std::int64_t left_stride,
                        const std::byte* right) {
  float b[kRegisterRows][kStepDepth];  // by column of C
  for (std::int64_t pair = 0; pair < kRegisterRows; ++pair) {
    for (std::int64_t column = 0; column < kRegisterRows; ++column) {
      for (std::int64_t odd = 0; odd < 2; ++odd) {
        b[column][2 * pair + odd] = element(right, (pair * kRegisterRows + column) * 2 + odd);
      }
    }
  }
  for (std::int64_t row = 0; row < kRegisterRows; ++row) {
    float a[kStepDepth];
    for (std::int64_t i = 0; i < kStepDepth; ++i) a[i] = element(left + row * left_stride, i);
    for (std::int64_t column = 0; column < kRegisterRows; ++column) {
      float even = 0.0F, odd = 0.0F;
      for (std::int64_t i = 0; i < kStepDepth; i += 2) {
        even = multiply_add(a[i], b[column][i], even);
        odd = multiply_add(a[i + 1], b[column][i + 1], odd);
      }
      float& sum = c[row * kTileSide + column];
      sum = add(sum, add(even, odd));
    }
  }
}

void sum_step(float* sums, const TileRun& run, const std::byte* left, const std::byte* right) {
  for (int lower = 0; lower < 2; ++lower) {
    for (int second = 0; second < 2; ++second) {
      multiply_registers(sums + lower * kTileSums / 2 + second * kRegisterRows,
                         left + lower * run.left_half, run.left_stride,
                         right + second * run.steps * kRegisterBytes);
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
