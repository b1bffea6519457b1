#pragma once
// How rows of a finished tile come to C between the steps of the next tile, by the instructions of
// AVX-512 with bf16; the bits are the epilogue's (product_epilogue.h). For amx_tiles.cc.

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/ops/cpu/exponential_constants.h"

#define PHALANX_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512bf16")))

namespace phalanx::cpu {

// Kinds of rows, a loop for each.
enum class Rows { kNone, kBf16, kBf16WithBias, kStore, kAdd, kGelu, kGeluGradient, kAny };

inline Rows rows_of(const PendingTile& tile) {
  if (tile.sums == nullptr) return Rows::kNone;
  switch (tile.finish.kind) {
    case TileFinish::Kind::kBf16:
      return tile.finish.bias == nullptr ? Rows::kBf16 : Rows::kBf16WithBias;
    case TileFinish::Kind::kStore:
      return Rows::kStore;
    case TileFinish::Kind::kAdd:
      return Rows::kAdd;
    case TileFinish::Kind::kGelu:
      return Rows::kGelu;
    case TileFinish::Kind::kGeluGradient:
      return Rows::kGeluGradient;
    default:
      return Rows::kAny;
  }
}

// The mask of the forms whose unmasked intrinsics GCC 12 warns of (its bug 105593).
inline constexpr __mmask16 kAllFloats = 0xffff;

// The floats of a row of a tile.
struct RowFloats {
  __m512 low, high;
};

PHALANX_AMX inline __m512 widen(__m256i bf16) {
  return _mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(kAllFloats, _mm512_maskz_cvtepu16_epi32(kAllFloats, bf16), 16));
}
PHALANX_AMX inline RowFloats widen(__m512i bf16) {
  return {widen(__builtin_shufflevector(bf16, bf16, 0, 1, 2, 3)),
          widen(__builtin_shufflevector(bf16, bf16, 4, 5, 6, 7))};
}
PHALANX_AMX inline __m512i narrow(const RowFloats& row) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(row.high, row.low));
}
PHALANX_AMX inline RowFloats load_row(const std::byte* bf16) {
  const auto* halves = reinterpret_cast<const __m256i_u*>(bf16);
  return {widen(_mm256_loadu_si256(halves)), widen(_mm256_loadu_si256(halves + 1))};
}
PHALANX_AMX inline RowFloats add(const RowFloats& a, const RowFloats& b) {
  return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)};
}

// TanhGelu of gelu-inl.h.
struct RowGelu {
  PHALANX_AMX static inline __m512 value(__m512 x) {
    const __m512 power = power_of(x, _mm512_mul_ps(x, x));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0F), power));
  }
  PHALANX_AMX static inline __m512 derivative(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0F);
    const __m512 square = _mm512_mul_ps(x, x);
    const __m512 power = power_of(x, square);
    const __m512 p = _mm512_div_ps(one, _mm512_add_ps(one, power));
    const __m512 slope =
        _mm512_fmadd_ps(square, _mm512_set1_ps(static_cast<float>(3.0 * kTanhGeluCubic)),
                        _mm512_set1_ps(static_cast<float>(kTanhGeluLinear)));
    return _mm512_fmadd_ps(_mm512_mul_ps(p, _mm512_mul_ps(power, p)), _mm512_mul_ps(x, slope), p);
  }

 private:
  PHALANX_AMX static inline __m512 power_of(__m512 x, __m512 square) {
    const __m512 slope =
        _mm512_fmadd_ps(square, _mm512_set1_ps(static_cast<float>(-kTanhGeluCubic)),
                        _mm512_set1_ps(static_cast<float>(-kTanhGeluLinear)));
    const __m512 above =
        _mm512_maskz_max_ps(kAllFloats, _mm512_mul_ps(x, slope), _mm512_set1_ps(-kTanhGeluBound));
    return exponential(_mm512_maskz_min_ps(kAllFloats, above, _mm512_set1_ps(kTanhGeluBound)));
  }
  PHALANX_AMX static inline __m512 exponential(__m512 x) {
    const __m512 shift = _mm512_set1_ps(kRoundingShift);
    const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(kLog2OfE), shift);
    const __m512 n = _mm512_sub_ps(shifted, shift);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2Parts[0]), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2Parts[1]), r);
    __m512 q = _mm512_set1_ps(kExponentialTerms[4]);
    for (int i = 3; i >= 0; --i) q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(kExponentialTerms[i]));
    const __m512 power =
        _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r), _mm512_set1_ps(1.0F));
    const __m512i exponent = _mm512_maskz_slli_epi32(kAllFloats, _mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(power), exponent));
  }
};

template <Rows kRows>
class Finisher {
 public:
  PHALANX_AMX Finisher(TileState& state, std::int64_t steps)
      : tile_(state.pending), transposed_(state.buffers + 2 * kTileSums), sums_(tile_.sums) {
    if constexpr (kRows == Rows::kNone) return;
    first_step_ = first_step(steps);
    const std::int64_t left = steps - first_step_;
    rows_a_step_ = (kTileSide + left - 1) / left;
    if constexpr (kRows == Rows::kAny) return;
    constexpr std::int64_t kSize = kRows == Rows::kStore || kRows == Rows::kAdd ? 4 : 2;
    const Epilogue& e = *tile_.finish.epilogue;
    c_ = place(e.c, kSize);
    stride_ = e.c.stride * kSize;
    if constexpr (kRows == Rows::kBf16WithBias) {
      bias_ = {_mm512_loadu_ps(tile_.finish.bias + tile_.column),
               _mm512_loadu_ps(tile_.finish.bias + tile_.column + 16)};
    }
    if constexpr (kActivates) {
      other_ = place(e.other, kSize);
      other_stride_ = e.other.stride * kSize;
      has_inner_bias_ = e.activation_bias != nullptr;
      if (has_inner_bias_) inner_bias_ = load_row(e.activation_bias + tile_.column * kSize);
      has_bias_ = e.has_bias;
      if (has_bias_) bias_ = load_row(e.bias + tile_.column * kSize);
    }
  }

  PHALANX_AMX inline void after(std::int64_t step) {
    if constexpr (kRows == Rows::kNone) return;
    if (step < first_step_ || row_ == kTileSide) return;
    const std::int64_t end = std::min(row_ + rows_a_step_, kTileSide);
    if constexpr (kRows == Rows::kAny) {
      finish_rows(tile_, end, transposed_);
      row_ = end;
    } else {
      for (; row_ < end; ++row_) finish_row();
    }
  }

 private:
  static constexpr bool kActivates = kRows == Rows::kGelu || kRows == Rows::kGeluGradient;
  // With fewer steps, the stores of the last tile's sums take half of them.
  static constexpr std::int64_t kFewSteps = 12;
  // Rows of the other matrix that are fetched ahead.
  static constexpr std::int64_t kRowsAhead = 4;

  // An activation takes longer than the products: it starts at once.
  static std::int64_t first_step(std::int64_t steps) {
    return kActivates || steps >= kFewSteps ? 0 : steps / 2;
  }
  std::byte* place(const EpilogueRows& rows, std::int64_t size) const {
    return rows.data + (tile_.row * rows.stride + tile_.column) * size;
  }

  PHALANX_AMX inline void finish_row() {
    const RowFloats sums{_mm512_load_ps(sums_), _mm512_load_ps(sums_ + 16)};
    if constexpr (kRows == Rows::kBf16) {
      _mm512_storeu_si512(c_, narrow(sums));
    } else if constexpr (kRows == Rows::kBf16WithBias) {
      _mm512_storeu_si512(c_, narrow(add(sums, bias_)));
    } else if constexpr (kRows == Rows::kGelu) {
      activate(sums);
    } else if constexpr (kRows == Rows::kGeluGradient) {
      differentiate(sums);
    } else {
      auto* c = reinterpret_cast<float*>(c_);
      RowFloats result = sums;
      if constexpr (kRows == Rows::kAdd) {
        result = add({_mm512_loadu_ps(c), _mm512_loadu_ps(c + 16)}, sums);
      }
      _mm512_storeu_ps(c, result.low);
      _mm512_storeu_ps(c + 16, result.high);
    }
    sums_ += kTileSide;
    c_ += stride_;
  }

  PHALANX_AMX inline void activate(const RowFloats& sums) {
    const __m512i rounded = narrow(has_bias_ ? add(sums, bias_) : sums);
    _mm512_storeu_si512(c_, rounded);
    RowFloats x = widen(rounded);
    if (has_inner_bias_) x = add(x, inner_bias_);
    _mm512_storeu_si512(other_, narrow({RowGelu::value(x.low), RowGelu::value(x.high)}));
    _mm_prefetch(other_ + kRowsAhead * other_stride_, _MM_HINT_T0);
    other_ += other_stride_;
  }
  PHALANX_AMX inline void differentiate(const RowFloats& sums) {
    RowFloats x = load_row(other_);
    _mm_prefetch(other_ + kRowsAhead * other_stride_, _MM_HINT_T0);
    other_ += other_stride_;
    if (has_inner_bias_) x = add(x, inner_bias_);
    const RowFloats gradient = widen(narrow(sums));
    _mm512_storeu_si512(c_, narrow({_mm512_mul_ps(gradient.low, RowGelu::derivative(x.low)),
                                    _mm512_mul_ps(gradient.high, RowGelu::derivative(x.high))}));
  }

  PendingTile& tile_;
  float* transposed_;
  const float* sums_;
  std::byte *c_ = nullptr, *other_ = nullptr;
  std::int64_t stride_ = 0, other_stride_ = 0;
  std::int64_t first_step_ = 0, rows_a_step_ = kTileSide;
  std::int64_t row_ = 0;
  bool has_bias_ = false, has_inner_bias_ = false;
  RowFloats bias_ = {}, inner_bias_ = {};
};

}  // namespace phalanx::cpu

#endif
