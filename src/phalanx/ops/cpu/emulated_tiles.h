#pragma once
// For tests: the instructions on AMX's tile registers in plain C++, in place of the compiler's. A
// test includes this and then a program of these instructions.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "phalanx/ops/cpu/amx_twin.h"

namespace phalanx::cpu {

// Eight registers of 16 rows of 64 bytes.
struct TileRegisters {
  alignas(64) std::byte rows[8][16][64];

  void load(int to, const void* from, std::int64_t stride) {
    for (std::int64_t row = 0; row < 16; ++row) {
      std::memcpy(rows[to][row], static_cast<const std::byte*>(from) + row * stride, 64);
    }
  }
  void store(int from, void* to, std::int64_t stride) const {
    for (std::int64_t row = 0; row < 16; ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * stride, rows[from][row], 64);
    }
  }
  void clear(int to) { std::memset(rows[to], 0, sizeof rows[to]); }
  void multiply(int sums, int left, int right) {
    multiply_registers({.sums = reinterpret_cast<float*>(rows[sums]),
                        .sums_stride = 16,
                        .left = rows[left][0],
                        .left_stride = 64,
                        .right = rows[right][0],
                        .right_stride = 64});
  }
};

inline TileRegisters& tile_registers() {
  thread_local TileRegisters registers;
  return registers;
}

// A kernel of a program on emulated registers, which need no configuration.
template <typename Kernel>
Kernel on_emulated_tiles(Kernel kernel) {
  kernel.prepare = kernel.release = [] {};
  return kernel;
}

}  // namespace phalanx::cpu

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
// NOLINTBEGIN(readability-identifier-naming): the compiler's names
#define _tile_loadd(to, from, stride) tile_registers().load(to, from, stride)
#define _tile_stream_loadd(to, from, stride) tile_registers().load(to, from, stride)
#define _tile_stored(from, to, stride) tile_registers().store(from, to, stride)
#define _tile_zero(to) tile_registers().clear(to)
#define _tile_dpbf16ps(sums, left, right) tile_registers().multiply(sums, left, right)
// NOLINTEND(readability-identifier-naming)
