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

// Operands must be in memory, because GCC 12 does not know what tile loads read.
inline void finish_stores() { asm volatile("" ::: "memory"); }

// Computes products a step of depth at a time, for 2 x 2 registers of sums. Registers 0-3 hold the
// sums, 4 and 5 the left operand, 6 and 7 the right one; register numbers must be literals.
class ProductSteps {
 public:
  // All steps are shared evenly among `ticks` calls of tick().
  PHALANX_AMX_INLINE ProductSteps(TileProducts products, std::int64_t ticks)
      : next_(products.data()), end_(products.data() + products.size()), ticks_(ticks) {
    for (const TileProduct& p : products) {
      steps_ += (p.row_tiles + 1) / 2 * ((p.column_tiles + 1) / 2) * p.steps;
    }
    if (steps_ > 0) start_product();
  }

  PHALANX_AMX_INLINE void tick() {
    for (due_ += steps_; due_ >= ticks_; due_ -= ticks_) take_step();
  }

 private:
  PHALANX_AMX_INLINE void take_step() {
    if (step_ == 0) load_sums();
    _tile_loadd(4, left_, p_.left_stride);
    _tile_loadd(6, right_, p_.right_stride);
    _tile_dpbf16ps(0, 4, 6);
    if (has_columns_) {
      _tile_loadd(7, right_ + 64, p_.right_stride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (has_rows_) {
      _tile_loadd(5, left_ + kHalf * p_.left_stride, p_.left_stride);
      _tile_dpbf16ps(2, 5, 6);
      if (has_columns_) _tile_dpbf16ps(3, 5, 7);
    }
    left_ += kStepDepth * 2;
    right_ += kHalf * p_.right_stride;
    if (++step_ < p_.steps) return;
    store_sums();
    row_ += 2;
    if (row_ < p_.row_tiles) {
      start_sums();
    } else if (column_ + 2 < p_.column_tiles) {
      row_ = 0;
      column_ += 2;
      start_sums();
    } else if (++next_ != end_) {
      start_product();
    }
  }

  PHALANX_AMX_INLINE void start_product() {
    p_ = *next_;
    row_ = column_ = 0;
    start_sums();
  }
  PHALANX_AMX_INLINE void start_sums() {
    step_ = 0;
    has_rows_ = row_ + 1 < p_.row_tiles;
    has_columns_ = column_ + 1 < p_.column_tiles;
    left_ = p_.left + row_ * kHalf * p_.left_stride;
    right_ = p_.right + column_ * 64;
    sums_ = reinterpret_cast<std::byte*>(p_.sums) + row_ * kHalf * p_.sums_stride + column_ * 64;
  }

  PHALANX_AMX_INLINE void load_sums() const {
    if (!p_.add) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      return;
    }
    const std::byte* const lower = sums_ + kHalf * p_.sums_stride;
    _tile_loadd(0, sums_, p_.sums_stride);
    if (has_columns_) _tile_loadd(1, sums_ + 64, p_.sums_stride);
    if (has_rows_) _tile_loadd(2, lower, p_.sums_stride);
    if (has_rows_ && has_columns_) _tile_loadd(3, lower + 64, p_.sums_stride);
  }
  PHALANX_AMX_INLINE void store_sums() const {
    std::byte* const lower = sums_ + kHalf * p_.sums_stride;
    _tile_stored(0, sums_, p_.sums_stride);
    if (has_columns_) _tile_stored(1, sums_ + 64, p_.sums_stride);
    if (has_rows_) _tile_stored(2, lower, p_.sums_stride);
    if (has_rows_ && has_columns_) _tile_stored(3, lower + 64, p_.sums_stride);
  }

  const TileProduct* next_;
  const TileProduct* end_;
  std::int64_t ticks_, steps_ = 0, due_ = 0;
  TileProduct p_;
  std::int64_t row_ = 0, column_ = 0, step_ = 0;
  bool has_rows_ = false, has_columns_ = false;
  const std::byte *left_ = nullptr, *right_ = nullptr;
  std::byte* sums_ = nullptr;
};

PHALANX_AMX void multiply(const TileProduct& product) {
  finish_stores();
  ProductSteps({&product, 1}, 1).tick();
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

// The softmax of 16 lanes, whose scores and pairs are at `lane`.
template <bool kDrops>
class SoftmaxLanes {
 public:
  PHALANX_AMX_INLINE SoftmaxLanes(const TileSoftmax& s, std::int64_t lane)
      : s_(s), lane_(lane), factor_(_mm512_set1_ps(s.factor)), order_(pair_order()) {
    even_ = _mm512_load_ps(s.scores + lane);
    odd_ = _mm512_load_ps(s.scores + kTileLanes + lane);
  }

  // Before start(): looks for the largest scores of two keys.
  PHALANX_AMX_INLINE void compare(std::int64_t key) {
    const float* at = s_.scores + key * kTileLanes + lane_;
    even_ = larger(even_, _mm512_load_ps(at));
    odd_ = larger(odd_, _mm512_load_ps(at + kTileLanes));
  }

  PHALANX_AMX_INLINE void start() {
    const __m512 before = _mm512_load_ps(s_.maximum + lane_);
    const __m512 maximum = larger(before, _mm512_mul_ps(larger(even_, odd_), factor_));
    // A row that has seen no key yet must not become NaN.
    const __mmask16 seen =
        _mm512_cmp_ps_mask(maximum, _mm512_set1_ps(-__builtin_inff()), _CMP_NEQ_UQ);
    reference_ = _mm512_maskz_mov_ps(seen, maximum);
    const __m512 shrink = power_of_two(_mm512_sub_ps(before, reference_));
    _mm512_store_ps(s_.maximum + lane_, maximum);
    _mm512_store_ps(s_.shrink + lane_, shrink);
    even_ = _mm512_mul_ps(_mm512_load_ps(s_.sum + lane_), shrink);
    odd_ = _mm512_setzero_ps();
  }

  // Probabilities of two keys.
  PHALANX_AMX_INLINE void add(std::int64_t key) {
    const float* at = s_.scores + key * kTileLanes + lane_;
    __m512 p0 = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(at), factor_, reference_));
    __m512 p1 = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(at + kTileLanes), factor_, reference_));
    even_ = _mm512_add_ps(even_, p0);
    odd_ = _mm512_add_ps(odd_, p1);
    if constexpr (kDrops) {
      p0 = _mm512_maskz_mov_ps(kept_lanes(s_.kept, key, lane_), p0);
      p1 = _mm512_maskz_mov_ps(kept_lanes(s_.kept, key + 1, lane_), p1);
    }
    _mm512_store_si512(s_.pairs + key / 2 * kPairBytes + lane_ * 4, to_pair(p0, p1, order_));
  }

  PHALANX_AMX_INLINE void finish() const {
    _mm512_store_ps(s_.sum + lane_, _mm512_add_ps(even_, odd_));
  }

 private:
  const TileSoftmax& s_;
  std::int64_t lane_;
  __m512 factor_;
  __m512i order_;
  __m512 reference_, even_, odd_;  // maxima, then sums, of even and of odd keys
};

// Keys between two ticks of the products while maxima are looked for, and afterwards.
constexpr std::int64_t kMaximumKeys = 16, kPowerKeys = 2;

template <bool kDrops, bool kBothHalves>
PHALANX_AMX void softmax_of_span(const TileSoftmax& s, TileProducts beside) {
  ProductSteps steps(beside, s.keys / kMaximumKeys + s.keys / kPowerKeys);
  SoftmaxLanes<kDrops> low(s, 0), high(s, kHalf);
  for (std::int64_t key = 0; key < s.keys; key += 2) {
    low.compare(key);
    if constexpr (kBothHalves) high.compare(key);
    if (key % kMaximumKeys == 0) steps.tick();
  }
  low.start();
  if constexpr (kBothHalves) high.start();
  for (std::int64_t key = 0; key < s.keys; key += kPowerKeys) {
    low.add(key);
    if constexpr (kBothHalves) high.add(key);
    steps.tick();
  }
  low.finish();
  if constexpr (kBothHalves) high.finish();
}

PHALANX_AMX void softmax(const TileSoftmax& step, TileProducts beside) {
  finish_stores();
  const bool drops = step.kept != nullptr;
  if (step.lanes == kHalf) {
    drops ? softmax_of_span<true, false>(step, beside)
          : softmax_of_span<false, false>(step, beside);
  } else {
    drops ? softmax_of_span<true, true>(step, beside) : softmax_of_span<false, true>(step, beside);
  }
  finish_stores();
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

// Of 32 lanes: low, high.
PHALANX_AMX_INLINE __m512i to_row(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

constexpr __mmask32 kAllWords = 0xffffffff;

template <bool kDrops>
PHALANX_AMX void gradients_of_span(const TileGradients& g, TileProducts beside) {
  ProductSteps steps(beside, g.keys / 2);
  const __m512 lse[2] = {_mm512_load_ps(g.lse), _mm512_load_ps(g.lse + kHalf)};
  const __m512 delta[2] = {_mm512_load_ps(g.delta), _mm512_load_ps(g.delta + kHalf)};
  for (std::int64_t key = 0; key < g.keys; key += 2) {
    __m512i rows[2];
    for (int odd = 0; odd < 2; ++odd) {
      const auto low = differentiate<kDrops>(g, key + odd, 0, lse[0], delta[0]);
      const auto high = differentiate<kDrops>(g, key + odd, kHalf, lse[1], delta[1]);
      const std::int64_t row = (key + odd) * g.stride;
      rows[odd] = to_row(low.gradient, high.gradient);
      _mm512_store_si512(g.probabilities + row, to_row(low.probability, high.probability));
      _mm512_store_si512(g.gradients + row, rows[odd]);
    }
    std::byte* const pairs = g.pairs + key / 2 * kPairBytes;
    _mm512_store_si512(pairs, _mm512_maskz_unpacklo_epi16(kAllWords, rows[0], rows[1]));
    _mm512_store_si512(pairs + 64, _mm512_maskz_unpackhi_epi16(kAllWords, rows[0], rows[1]));
    steps.tick();
  }
}

PHALANX_AMX void gradients(const TileGradients& step, TileProducts beside) {
  finish_stores();
  if (step.kept == nullptr) {
    gradients_of_span<false>(step, beside);
  } else {
    gradients_of_span<true>(step, beside);
  }
  finish_stores();
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
