// Attention of family `amx2` by the instructions of AMX and AVX-512.

#include "phalanx/ops/cpu/amx_attention_kernel.h"

#include "phalanx/ops/cpu/amx_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phalanx::cpu {

#if defined(__x86_64__)
namespace {

#define PHALANX_AMX \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512bf16")))
#define PHALANX_AMX_INLINE PHALANX_AMX __attribute__((always_inline)) inline

constexpr std::int64_t kHalf = 16;                   // lanes of a vector
constexpr std::int64_t kPairBytes = kTileLanes * 4;  // of two keys

// ---- Products

// A tile of 16 rows by one or two times 16 columns. Neighbours have sums and left operands in other
// registers (their numbers must be literals), so that one is summed while the one before is stored.
#define PHALANX_MULTIPLY_ROW(NAME, SUM0, SUM1, LEFT)                                         \
  template <int kColumns>                                                                    \
  PHALANX_AMX_INLINE void NAME(const TileProduct& p, const std::byte* left, std::byte* sums, \
                               const std::byte* right) {                                     \
    const std::int64_t right_step = kRegisterRows * p.right_stride;                          \
    if (p.add) {                                                                             \
      _tile_loadd(SUM0, sums, p.sums_stride);                                                \
      if constexpr (kColumns == 2) _tile_loadd(SUM1, sums + 64, p.sums_stride);              \
    } else {                                                                                 \
      _tile_zero(SUM0);                                                                      \
      if constexpr (kColumns == 2) _tile_zero(SUM1);                                         \
    }                                                                                        \
    for (std::int64_t step = 0; step < p.steps; ++step) {                                    \
      _tile_loadd(LEFT, left, p.left_stride);                                                \
      _tile_loadd(6, right, p.right_stride);                                                 \
      _tile_dpbf16ps(SUM0, LEFT, 6);                                                         \
      if constexpr (kColumns == 2) {                                                         \
        _tile_loadd(7, right + 64, p.right_stride);                                          \
        _tile_dpbf16ps(SUM1, LEFT, 7);                                                       \
      }                                                                                      \
      left += kStepDepth * 2;                                                                \
      right += right_step;                                                                   \
    }                                                                                        \
    _tile_stored(SUM0, sums, p.sums_stride);                                                 \
    if constexpr (kColumns == 2) _tile_stored(SUM1, sums + 64, p.sums_stride);               \
  }
PHALANX_MULTIPLY_ROW(multiply_even_row, 0, 1, 4)
PHALANX_MULTIPLY_ROW(multiply_odd_row, 2, 3, 5)
#undef PHALANX_MULTIPLY_ROW

// Operands must be in memory, because GCC 12 does not know what tile loads read.
inline void finish_stores() { asm volatile("" ::: "memory"); }

template <int kColumns>
PHALANX_AMX void multiply_column(const TileProduct& p, std::int64_t column) {
  const std::int64_t left_row = kHalf * p.left_stride, sums_row = kHalf * p.sums_stride;
  const std::byte* left = p.left;
  const std::byte* const right = p.right + column * 64;
  auto* sums = reinterpret_cast<std::byte*>(p.sums) + column * 64;
  for (std::int64_t row = 0; row < p.row_tiles; ++row) {
    if (row % 2 == 0) {
      multiply_even_row<kColumns>(p, left, sums, right);
    } else {
      multiply_odd_row<kColumns>(p, left, sums, right);
    }
    left += left_row;
    sums += sums_row;
  }
}

PHALANX_AMX void multiply(const TileProduct& p) {
  finish_stores();
  std::int64_t column = 0;
  for (; column + 2 <= p.column_tiles; column += 2) multiply_column<2>(p, column);
  if (column < p.column_tiles) multiply_column<1>(p, column);
  finish_stores();
}

// ---- Probabilities

// As the intrinsics without a mask, whose undefined operand GCC 12 warns of (its bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;
PHALANX_AMX_INLINE __m512 larger(__m512 a, __m512 b) {  // b if one is NaN
  return _mm512_maskz_max_ps(kAllLanes, a, b);
}

// 2^x; NaN stays NaN, and -infinity gives 0.
PHALANX_AMX_INLINE __m512 power_of_two(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, 0x09);  // x - floor(x), rounded down
  __m512 power = _mm512_set1_ps(kTilePower[5]);
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kTilePower[4]));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kTilePower[3]));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kTilePower[2]));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kTilePower[1]));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kTilePower[0]));
  return _mm512_maskz_scalef_ps(kAllLanes, power, x);
}

// The order of a pair's lanes: bf16 of the first key and of the second by turns.
PHALANX_AMX_INLINE __m512i pair_order() {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_load_si512(kOrder);
}

PHALANX_AMX_INLINE __m512i to_pair(__m512 first, __m512 second, __m512i order) {
  return _mm512_permutexvar_epi16(order,
                                  reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
}

PHALANX_AMX_INLINE __mmask16 kept_lanes(const std::uint32_t* kept, std::int64_t key,
                                        std::int64_t lane) {
  return static_cast<__mmask16>(kept[key] >> static_cast<std::uint32_t>(lane));
}

template <bool kDrops>
PHALANX_AMX void softmax_lanes(const TileSoftmax& s, std::int64_t lane) {
  __m512 maxima[4];
  for (int i = 0; i < 4; ++i) maxima[i] = _mm512_load_ps(s.scores + i * kTileLanes + lane);
  for (std::int64_t key = 4; key < s.keys; key += 4) {
    for (int i = 0; i < 4; ++i) {
      maxima[i] = larger(maxima[i], _mm512_load_ps(s.scores + (key + i) * kTileLanes + lane));
    }
  }
  const __m512 largest = larger(larger(maxima[0], maxima[1]), larger(maxima[2], maxima[3]));
  const __m512 before = _mm512_load_ps(s.maximum + lane);
  const __m512 factor = _mm512_set1_ps(s.factor);
  const __m512 maximum = larger(before, _mm512_mul_ps(largest, factor));
  // A row that has seen no key yet must not become NaN.
  const __mmask16 seen =
      _mm512_cmp_ps_mask(maximum, _mm512_set1_ps(-__builtin_inff()), _CMP_NEQ_UQ);
  const __m512 reference = _mm512_maskz_mov_ps(seen, maximum);
  const __m512 shrink = power_of_two(_mm512_sub_ps(before, reference));
  __m512 even = _mm512_mul_ps(_mm512_load_ps(s.sum + lane), shrink);
  __m512 odd = _mm512_setzero_ps();
  const __m512i order = pair_order();
  for (std::int64_t key = 0; key < s.keys; key += 2) {
    const float* at = s.scores + key * kTileLanes + lane;
    __m512 p0 = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(at), factor, reference));
    __m512 p1 = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(at + kTileLanes), factor, reference));
    even = _mm512_add_ps(even, p0);
    odd = _mm512_add_ps(odd, p1);
    if constexpr (kDrops) {
      p0 = _mm512_maskz_mov_ps(kept_lanes(s.kept, key, lane), p0);
      p1 = _mm512_maskz_mov_ps(kept_lanes(s.kept, key + 1, lane), p1);
    }
    _mm512_store_si512(s.pairs + key / 2 * kPairBytes + lane * 4, to_pair(p0, p1, order));
  }
  _mm512_store_ps(s.maximum + lane, maximum);
  _mm512_store_ps(s.sum + lane, _mm512_add_ps(even, odd));
  _mm512_store_ps(s.shrink + lane, shrink);
}

PHALANX_AMX void softmax(const TileSoftmax& step) {
  for (std::int64_t lane = 0; lane < step.lanes; lane += kHalf) {
    if (step.kept == nullptr) {
      softmax_lanes<false>(step, lane);
    } else {
      softmax_lanes<true>(step, lane);
    }
  }
}

// ---- Gradients

struct ProbabilityAndGradient {
  __m512 probability, gradient;
};

template <bool kDrops>
PHALANX_AMX_INLINE ProbabilityAndGradient differentiate(const TileGradients& g, std::int64_t key,
                                                        std::int64_t lane, __m512 lse,
                                                        __m512 delta) {
  const std::int64_t at = key * kTileLanes + lane;
  const __m512 score = _mm512_load_ps(g.scores + at);
  const __m512 p = power_of_two(_mm512_fmsub_ps(score, _mm512_set1_ps(g.factor), lse));
  __m512 dp = _mm512_load_ps(g.dvalues + at);
  __m512 kept = p;
  if constexpr (kDrops) {
    const __mmask16 mask = kept_lanes(g.kept, key, lane);
    kept = _mm512_maskz_mov_ps(mask, p);
    dp = _mm512_maskz_mul_ps(mask, dp, _mm512_set1_ps(g.kept_factor));
  }
  const __m512 gradient = _mm512_mul_ps(p, _mm512_sub_ps(dp, delta));
  if (g.exact_gradients != nullptr) _mm512_store_ps(g.exact_gradients + at, gradient);
  return {kept, gradient};
}

template <bool kDrops>
PHALANX_AMX void gradients_of_span(const TileGradients& g) {
  const __m512i order = pair_order();
  const __m512 lse[2] = {_mm512_load_ps(g.lse), _mm512_load_ps(g.lse + kHalf)};
  const __m512 delta[2] = {_mm512_load_ps(g.delta), _mm512_load_ps(g.delta + kHalf)};
  for (std::int64_t key = 0; key < g.keys; key += 2) {
    ProbabilityAndGradient x[2][2];
    for (int odd = 0; odd < 2; ++odd) {
      for (int half = 0; half < 2; ++half) {
        x[odd][half] = differentiate<kDrops>(g, key + odd, half * kHalf, lse[half], delta[half]);
      }
      const std::int64_t row = (key + odd) * g.stride;
      const __m512bh p = _mm512_cvtne2ps_pbh(x[odd][1].probability, x[odd][0].probability);
      const __m512bh ds = _mm512_cvtne2ps_pbh(x[odd][1].gradient, x[odd][0].gradient);
      _mm512_store_si512(g.probabilities + row, reinterpret_cast<__m512i>(p));
      _mm512_store_si512(g.gradients + row, reinterpret_cast<__m512i>(ds));
    }
    for (int half = 0; half < 2; ++half) {
      _mm512_store_si512(g.pairs + key / 2 * kPairBytes + half * 64,
                         to_pair(x[0][half].gradient, x[1][half].gradient, order));
    }
  }
}

PHALANX_AMX void gradients(const TileGradients& step) {
  if (step.kept == nullptr) {
    gradients_of_span<false>(step);
  } else {
    gradients_of_span<true>(step);
  }
}

void prepare() { tile_kernel(Target::kAmx).prepare(); }
void release() { tile_kernel(Target::kAmx).release(); }

constexpr AttentionKernel kInstructions{.prepare = prepare,
                                        .release = release,
                                        .multiply = multiply,
                                        .softmax = softmax,
                                        .gradients = gradients};

}  // namespace

const AttentionKernel& attention_kernel(Target target) {
  return target >= Target::kAmx ? kInstructions : attention_kernel_twin();
}

#else

const AttentionKernel& attention_kernel(Target /*target*/) { return attention_kernel_twin(); }

#endif

}  // namespace phalanx::cpu
