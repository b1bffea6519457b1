#include "phalanx/ops/cpu/amx_packing.h"

#include <algorithm>
#include <cstring>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_tiles.h"

#if defined(__x86_64__)
// GCC 12 takes the undefined operands in its own header for forgotten ones.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

namespace phalanx::cpu {
namespace {

constexpr std::int64_t kHalf = kRegisterRows;  // lines of a register

// Panels or strips that are packed together where lines are neighbours: 128 bytes of a row.
constexpr std::int64_t kAtOnce = 2;

std::uint16_t element(const Lines& from, std::int64_t line, std::int64_t i) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from.at(line, i), sizeof bits);
  return bits;
}

// The steps [begin, end) of one half of a panel, on any processor.
void pack_half_panel(const TilePacking& p, std::int64_t begin, std::int64_t end, std::byte* to) {
  if (begin == end) return;
  const std::int64_t first = begin * kStepDepth;
  std::byte* const target = to + begin * kRegisterBytes;
  const std::int64_t depth =
      std::clamp<std::int64_t>(p.depth - first, 0, (end - begin) * kStepDepth);
  if (p.lines <= 0 || depth == 0) {
    std::memset(target, 0, static_cast<std::size_t>((end - begin) * kRegisterBytes));
    return;
  }
  pack_panels({.from = p.from.from(0, first),
               .lines = std::min(p.lines, kHalf),
               .depth = depth,
               .operand = DType::kBF16,
               .groups = (end - begin) * kStepDepth / 2,
               .to = target},
              kHalf);
}

// One step of one half of a strip, on any processor.
void pack_half_strip(const TilePacking& p, std::int64_t half, std::int64_t step) {
  std::byte* const to = p.to + (2 * step + half) * kRegisterBytes;
  std::uint16_t rows[kRegisterRows][kStepDepth] = {};
  const std::int64_t lines = std::min(kHalf, p.lines - half * kHalf);
  const std::int64_t depths = std::min(kStepDepth, p.depth - step * kStepDepth);
  for (std::int64_t i = 0; i < depths; ++i) {
    for (std::int64_t line = 0; line < lines; ++line) {
      rows[line][i] = element(p.from, half * kHalf + line, step * kStepDepth + i);
    }
  }
  std::memcpy(to, rows, sizeof rows);
}

// Up to 32 lines of a packing, from `first` on.
TilePacking strip_of(const TilePacking& p, std::int64_t first) {
  TilePacking strip = p;
  strip.from = p.from.from(first, 0);
  strip.lines = std::min(kTileSide, p.lines - first);
  strip.to = p.to + first / kTileSide * packed_panel_bytes(p.steps);
  return strip;
}

#if defined(__x86_64__)

#define PHALANX_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

// How many rows ahead to fetch, into the second-level cache.
constexpr std::int64_t kAhead = 64;

PHALANX_AVX512 inline __m512i load(const std::byte* from) { return _mm512_loadu_si512(from); }
PHALANX_AVX512 inline void store(std::byte* to, __m512i value) { _mm512_store_si512(to, value); }

// Turns 16 rows of 16 dwords.
PHALANX_AVX512 inline void turn(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 q + j] has in its block b: column 4 b + j of the rows 4 q to 4 q + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i low01 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);   // blocks 0, 2
    const __m512i high01 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);  // blocks 1, 3
    const __m512i low23 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    const __m512i high23 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    t[4 + j] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// Whole steps of 16 lines that are contiguous in depth.
PHALANX_AVX512 void turn_half_panel(const TilePacking& p, std::int64_t steps, std::byte* to) {
  const std::int64_t stride = p.from.stride * 2;
  const std::byte* from = p.from.data;
  for (std::int64_t step = 0; step < steps; ++step, from += 64, to += kRegisterBytes) {
    __m512i rows[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rows[i] = load(from + i * stride);
      __builtin_prefetch(from + (i + kAhead) * stride, 0, 2);
    }
    turn(rows);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(to + i * 64, rows[i]);
  }
}

// Pairs of two rows of 32 elements: of columns 0 to 15, and of 16 to 31.
struct Pairs {
  __m512i low, high;
};
PHALANX_AVX512 inline Pairs pairs_of(__m512i even, __m512i odd) {
  const __m512i low_order =
      _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                       37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high_order = _mm512_add_epi16(low_order, _mm512_set1_epi16(16));
  return {_mm512_permutex2var_epi16(even, low_order, odd),
          _mm512_permutex2var_epi16(even, high_order, odd)};
}

// Whole steps of `panels` panels of 32 neighbouring lines.
PHALANX_AVX512 void pair_panels(const TilePacking& p, std::int64_t panels, std::int64_t steps,
                                std::int64_t panel_bytes) {
  const std::int64_t stride = p.from.stride * 2;
  const std::byte* from = p.from.data;
  const std::int64_t half = p.steps * kRegisterBytes;
  for (std::int64_t pair = 0; pair < steps * kRegisterRows; ++pair, from += 2 * stride) {
    std::byte* to = p.to + pair * 64;
    for (std::int64_t panel = 0; panel < panels; ++panel, to += panel_bytes) {
      const std::byte* at = from + panel * 64;
      __builtin_prefetch(at + kAhead * stride, 0, 2);
      __builtin_prefetch(at + (kAhead + 1) * stride, 0, 2);
      const Pairs both = pairs_of(load(at), load(at + stride));
      store(to, both.low);
      store(to + half, both.high);
    }
  }
}

// A step of a strip of 32 neighbouring lines.
PHALANX_AVX512 inline void turn_step(const std::byte* from, std::int64_t stride, std::byte* to) {
  __m512i low[16], high[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i, from += 2 * stride) {
    __builtin_prefetch(from + kAhead * stride, 0, 2);
    __builtin_prefetch(from + (kAhead + 1) * stride, 0, 2);
    const Pairs both = pairs_of(load(from), load(from + stride));
    low[i] = both.low;
    high[i] = both.high;
  }
  turn(low);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store(to + i * 64, low[i]);
  turn(high);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store(to + kRegisterBytes + i * 64, high[i]);
}

// Whole steps of `strips` strips of neighbouring lines.
PHALANX_AVX512 void turn_strips(const TilePacking& p, std::int64_t strips, std::int64_t steps) {
  const std::int64_t stride = p.from.stride * 2;
  const std::byte* from = p.from.data;
  for (std::int64_t step = 0; step < steps; ++step, from += kStepDepth * stride) {
    for (std::int64_t strip = 0; strip < strips; ++strip) {
      turn_step(from + strip * 64, stride,
                p.to + strip * packed_panel_bytes(p.steps) + step * 2 * kRegisterBytes);
    }
  }
}

bool has_vectors(Target target) { return target >= Target::kAvx512; }

#else

bool has_vectors(Target /*target*/) { return false; }
void turn_half_panel(const TilePacking&, std::int64_t, std::byte*) {}
void pair_panels(const TilePacking&, std::int64_t, std::int64_t, std::int64_t) {}
void turn_strips(const TilePacking&, std::int64_t, std::int64_t) {}

#endif

}  // namespace

void pack_tile_panels(Target target, const TilePacking& packing) {
  const std::int64_t whole_steps = has_vectors(target) ? packing.depth / kStepDepth : 0;
  const std::int64_t half_bytes = packing.steps * kRegisterBytes;
  const std::int64_t whole_panels =
      packing.from.depth_inner || whole_steps == 0 ? 0 : packing.lines / kTileSide;
  if (whole_panels > 0) {
    for (std::int64_t panel = 0; panel < whole_panels; panel += kAtOnce) {
      pair_panels(strip_of(packing, panel * kTileSide), std::min(kAtOnce, whole_panels - panel),
                  whole_steps, packed_panel_bytes(packing.steps));
    }
  }
  for (std::int64_t first = 0; first < packing.lines; first += kTileSide) {
    const TilePacking panel = strip_of(packing, first);
    for (int second = 0; second < 2; ++second) {
      TilePacking half = panel;
      half.lines = panel.lines - second * kHalf;
      std::byte* const to = panel.to + second * half_bytes;
      if (half.lines > 0) half.from = panel.from.from(second * kHalf, 0);
      std::int64_t done = first / kTileSide < whole_panels ? whole_steps : 0;
      if (packing.from.depth_inner && half.lines >= kHalf && whole_steps > 0) {
        turn_half_panel(half, whole_steps, to);
        done = whole_steps;
      }
      pack_half_panel(half, done, packing.steps, to);
    }
  }
}

void pack_tile_strips(Target target, const TilePacking& packing) {
  const std::int64_t whole_steps = has_vectors(target) ? packing.depth / kStepDepth : 0;
  const std::int64_t whole_strips = whole_steps == 0 ? 0 : packing.lines / kTileSide;
  for (std::int64_t strip = 0; strip < whole_strips; strip += kAtOnce) {
    turn_strips(strip_of(packing, strip * kTileSide), std::min(kAtOnce, whole_strips - strip),
                whole_steps);
  }
  for (std::int64_t first = 0; first < packing.lines; first += kTileSide) {
    const TilePacking strip = strip_of(packing, first);
    const std::int64_t done = first / kTileSide < whole_strips ? whole_steps : 0;
    for (std::int64_t step = done; step < packing.steps; ++step) {
      pack_half_strip(strip, 0, step);
      pack_half_strip(strip, 1, step);
    }
  }
}

void copy_tile_rows(const TilePacking& packing) {
  const std::int64_t row_bytes = packing.steps * kStepDepth * 2;
  const std::int64_t bytes = packing.depth * 2;
  for (std::int64_t row = 0; row < kTileSide; ++row) {
    std::byte* to = packing.to + row * row_bytes;
    if (row >= packing.lines) {
      std::memset(to, 0, static_cast<std::size_t>(row_bytes));
      continue;
    }
    std::memcpy(to, packing.from.at(row, 0), static_cast<std::size_t>(bytes));
    std::memset(to + bytes, 0, static_cast<std::size_t>(row_bytes - bytes));
  }
}

}  // namespace phalanx::cpu
