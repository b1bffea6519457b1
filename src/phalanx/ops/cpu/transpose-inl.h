// Transposes of small blocks of 32-bit elements. Included once per target.

#include <cstdint>

#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_TRANSPOSE_INL_H_
#undef PHALANX_OPS_CPU_TRANSPOSE_INL_H_
#else
#define PHALANX_OPS_CPU_TRANSPOSE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Columns that transpose_four() turns into rows.
inline constexpr std::int64_t kTransposed = 4;

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void transpose_four(const float* from, std::int64_t /*from_stride*/, float* to,
                               std::int64_t to_stride) {
  for (std::int64_t i = 0; i < kTransposed; ++i) to[i * to_stride] = from[i];
}

#else

// Four elements of every fourth row: block j of the vector holds row 4 j.
using QuarterTag = hn::CappedTag<float, 4>;
using HalvesTag = hn::CappedTag<float, 8>;
HWY_INLINE hn::Vec<HalvesTag> load_two_rows(const float* from, std::int64_t stride) {
  return hn::Combine(HalvesTag(), hn::LoadU(QuarterTag(), from + 4 * stride),
                     hn::LoadU(QuarterTag(), from));
}
HWY_INLINE FloatVector load_every_fourth_row(const float* from, std::int64_t stride) {
#if HWY_TARGET == HWY_AVX3
  return hn::Combine(FloatTag(), load_two_rows(from + 8 * stride, stride),
                     load_two_rows(from, stride));
#else
  return load_two_rows(from, stride);
#endif
}

// to[i][r] = from[r][i] for four i and a vector of r.
HWY_INLINE void transpose_four(const float* from, std::int64_t from_stride, float* to,
                               std::int64_t to_stride) {
  const FloatTag d;
  const hn::RepartitionToWide<FloatTag> wide;
  const auto v0 = load_every_fourth_row(from, from_stride);
  const auto v1 = load_every_fourth_row(from + from_stride, from_stride);
  const auto v2 = load_every_fourth_row(from + 2 * from_stride, from_stride);
  const auto v3 = load_every_fourth_row(from + 3 * from_stride, from_stride);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v0, v1));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v0, v1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v2, v3));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v2, v3));
  store(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), to);
  store(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), to + to_stride);
  store(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), to + 2 * to_stride);
  store(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), to + 3 * to_stride);
}

#endif

// to[i][r] = from[r][i]; `rows` come in whole vectors, `columns` in fours.
inline void transpose(const float* from, std::int64_t from_stride, std::int64_t rows,
                      std::int64_t columns, float* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += lane_count()) {
    for (std::int64_t i = 0; i < columns; i += kTransposed) {
      transpose_four(from + r * from_stride + i, from_stride, to + i * to_stride + r, to_stride);
    }
  }
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
