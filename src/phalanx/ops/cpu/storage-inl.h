// Vectors of floats in memory of f32, bf16 or f16. Loads widen exactly; stores round to nearest
// even, as base/dtype.h does. Included once per target by Highway's foreach_target.h, so it has a
// toggle instead of #pragma once.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "phalanx/ops/cpu/targets.h"

// targets.h configures Highway, so it comes first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"

#if defined(PHALANX_OPS_CPU_STORAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_STORAGE_INL_H_
#undef PHALANX_OPS_CPU_STORAGE_INL_H_
#else
#define PHALANX_OPS_CPU_STORAGE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using BitsVector = hn::Vec<BitsTag>;
using HalfBitsTag = hn::Rebind<std::uint16_t, FloatTag>;

inline constexpr std::size_t kMaxLanes = hn::MaxLanes(FloatTag());
// Lanes of a FloatVector: 16 with AVX-512, 8 with AVX2; the x86-64 baseline is scalar (Highway, GCC
// bug 106322).
HWY_INLINE std::int64_t lane_count() { return static_cast<std::int64_t>(hn::Lanes(FloatTag())); }

// ---- 16-bit patterns in the low half of 32-bit lanes

HWY_INLINE BitsVector load_bits(const void* from) {
  return hn::PromoteTo(BitsTag(),
                       hn::LoadU(HalfBitsTag(), static_cast<const std::uint16_t*>(from)));
}
HWY_INLINE void store_bits(BitsVector bits, void* to) {
  hn::StoreU(hn::TruncateTo(HalfBitsTag(), bits), HalfBitsTag(), static_cast<std::uint16_t*>(to));
}

HWY_INLINE FloatVector bf16_to_float(BitsVector bits) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
}
// A bf16 in the upper half of every lane; the lower half is arbitrary. kNumbers: no lane is NaN.
template <bool kNumbers = false>
HWY_INLINE BitsVector round_to_upper_half(FloatVector value) {
  const BitsTag tag;
  const auto bits = hn::BitCast(tag, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(tag, 0x7fff)));
  if constexpr (kNumbers) return rounded;
  const auto quiet = hn::Or(bits, hn::Set(tag, 0x400000));
  return hn::IfThenElse(hn::RebindMask(tag, hn::IsNaN(value)), quiet, rounded);
}
HWY_INLINE BitsVector float_to_bf16(FloatVector value) {
  return hn::ShiftRight<16>(round_to_upper_half(value));
}

// The same steps as to_float(float16) and to_float16(float), for targets without conversions.
HWY_INLINE FloatVector f16_to_float(BitsVector bits) {
  const BitsTag tag;
  const FloatTag d;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(tag, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(tag, 0x7fff));
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(tag, 112U << 23));
  const auto special = hn::Or(hn::ShiftLeft<13>(magnitude), hn::Set(tag, 0x7f800000));
  const hn::RebindToSigned<BitsTag> signed_tag;
  const auto subnormal = hn::BitCast(
      tag, hn::Mul(hn::ConvertTo(d, hn::BitCast(signed_tag, magnitude)), hn::Set(d, 0x1p-24F)));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(tag, 0x400)), subnormal, normal);
  return hn::BitCast(
      d, hn::Or(sign, hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag, 0x7bff)), special, finite)));
}
HWY_INLINE BitsVector float_to_f16(FloatVector value) {
  const BitsTag tag;
  const FloatTag d;
  const auto bits = hn::BitCast(tag, value);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag, 0x8000));
  const auto magnitude = hn::And(bits, hn::Set(tag, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(tag, 1));
  const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(tag, 0xfff)));
  const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(tag, 0x38000000)));
  // Adding 0.5 moves the bits of a subnormal result to the lowest bits.
  const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F));
  const auto subnormal = hn::Sub(hn::BitCast(tag, shifted), hn::Set(tag, 0x3f000000));
  const auto finite =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(tag, 0x38800000)), subnormal, normal);
  const auto bounded =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag, 0x477fefff)), hn::Set(tag, 0x7c00), finite);
  return hn::Or(sign, hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag, 0x7f800000)),
                                     hn::Set(tag, 0x7e00), bounded));
}

// ---- Whole vectors; no alignment is needed

HWY_INLINE FloatVector load(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE FloatVector load(const bfloat16* from) { return bf16_to_float(load_bits(from)); }
HWY_INLINE void store(FloatVector value, float* to) { hn::StoreU(value, FloatTag(), to); }
HWY_INLINE void store(FloatVector value, bfloat16* to) { store_bits(float_to_bf16(value), to); }

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
HWY_INLINE FloatVector load(const float16* from) {
  return hn::PromoteTo(FloatTag(),
                       hn::LoadU(HalfTag(), reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE void store(FloatVector value, float16* to) {
  hn::StoreU(hn::DemoteTo(HalfTag(), value), HalfTag(), reinterpret_cast<hwy::float16_t*>(to));
}
#else
HWY_INLINE FloatVector load(const float16* from) { return f16_to_float(load_bits(from)); }
HWY_INLINE void store(FloatVector value, float16* to) { store_bits(float_to_f16(value), to); }
#endif

// Prefetches the cache line `bytes` behind `from`, which may lie outside of all tensors. Hardware
// prefetching stops at the end of a page, and while a kernel works in the first-level cache.
template <typename T>
HWY_INLINE void prefetch(const T* from, std::int64_t bytes) {
  hwy::Prefetch(reinterpret_cast<const std::byte*>(from) + bytes);
}

// As prefetch, into the second-level cache: for what is read only after more than the first holds.
template <typename T>
HWY_INLINE void prefetch_second_level(const T* from) {
  __builtin_prefetch(from, 0, 2);
}

// ---- The first `count` lanes (0 <= count <= lanes); others read as zero and are not written

template <typename T>
HWY_INLINE FloatVector load_first(const T* from, std::int64_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == sizeof(float)) {  // masked loads do not fault here
    return hn::MaskedLoad(hn::FirstN(FloatTag(), static_cast<std::size_t>(count)), FloatTag(),
                          from);
  }
#endif
  HWY_ALIGN T lanes[kMaxLanes] = {};
  std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}
template <typename T>
HWY_INLINE void store_first(FloatVector value, T* to, std::int64_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == sizeof(float)) {
    hn::BlendedStore(value, hn::FirstN(FloatTag(), static_cast<std::size_t>(count)), FloatTag(),
                     to);
    return;
  }
#endif
  HWY_ALIGN T lanes[kMaxLanes];
  store(value, lanes);
  std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

// Rounds a value to storage type T.
template <typename T>
HWY_INLINE FloatVector round_to(FloatVector value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (kDTypeOf<T> == DType::kF16) {
      return hn::PromoteTo(FloatTag(), hn::DemoteTo(HalfTag(), value));
    }
#endif
    if constexpr (kDTypeOf<T> == DType::kF16) {
      return f16_to_float(float_to_f16(value));
    } else {
      const auto upper = hn::Set(BitsTag(), 0xffff0000U);
      return hn::BitCast(FloatTag(), hn::And(round_to_upper_half(value), upper));
    }
  }
}

// ---- Loops over a dense row. The body handles one vector and is compiled twice, for whole vectors
// and for the partial last one: body(index, lanes) with lanes.load(pointer) and lanes.store(value,
// pointer).

struct WholeVector {
  template <typename T>
  HWY_INLINE FloatVector load(const T* from) const {
    return HWY_NAMESPACE::load(from);
  }
  template <typename T>
  HWY_INLINE void store(FloatVector value, T* to) const {
    HWY_NAMESPACE::store(value, to);
  }
  // Keeps the value in lanes of the row, sets zero in others.
  HWY_INLINE FloatVector valid(FloatVector value) const { return value; }
  HWY_INLINE FloatVector valid_or(FloatVector value, FloatVector /*other*/) const { return value; }
};

struct FirstLanes {
  std::int64_t count;

  template <typename T>
  HWY_INLINE FloatVector load(const T* from) const {
    return load_first(from, count);
  }
  template <typename T>
  HWY_INLINE void store(FloatVector value, T* to) const {
    store_first(value, to, count);
  }
  HWY_INLINE FloatVector valid(FloatVector value) const {
    return hn::IfThenElseZero(hn::FirstN(FloatTag(), static_cast<std::size_t>(count)), value);
  }
  HWY_INLINE FloatVector valid_or(FloatVector value, FloatVector other) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), static_cast<std::size_t>(count)), value, other);
  }
};

template <typename Body>
HWY_INLINE void for_vectors(std::int64_t begin, std::int64_t end, const Body& body) {
  const std::int64_t step = lane_count();
  std::int64_t i = begin;
  for (; i + step <= end; i += step) body(i, WholeVector());
  if (kMaxLanes > 1 && i < end) body(i, FirstLanes{end - i});
}

// ---- Sums over a row whose bits do not depend on the vector width

template <int k>
struct Index {
  static constexpr int value = k;
};

// A sum in a fixed tree. Term i belongs to partial sum i mod kCount. A partial sum adds its terms
// in the order of i. At the end the second half of the partial sums is added to the first half,
// until one is left. All vector targets give the same bits: one holds the partial sums in 4 vectors
// of 16 floats, another in 8 of 8. Lanes after the last term add zeros, which can only turn a
// partial sum of -0 into 0; so a total is never -0. The scalar target has four partial sums and no
// fused multiply-add.
template <typename T, int kCount = 256 / sizeof(T)>
class Sums {
 public:
  using Tag = hn::ScalableTag<T>;
  using Vector = hn::Vec<Tag>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  static constexpr int kVectors = kLanes == 1 ? 4 : kCount / kLanes;
  static_assert(kVectors >= 1 && (kVectors & (kVectors - 1)) == 0);

  // Explicit, because an implicit constructor would not be compiled for the target.
  HWY_INLINE Sums() { clear(std::make_index_sequence<kVectors>()); }

  // Vector k holds the partial sums from k * kLanes on.
  template <int k>
  HWY_INLINE Vector& at() {
    return vectors_[k];
  }
  HWY_INLINE T total() const {
    Sums sums = *this;
    return sums.template fold<kVectors>() + T(0);
  }

 private:
  template <std::size_t... k>
  HWY_INLINE void clear(std::index_sequence<k...> /*all*/) {
    ((vectors_[k] = hn::Zero(Tag())), ...);
  }
  template <int count>
  HWY_INLINE T fold() {
    if constexpr (count == 1) {
      return sum_of_lanes(Tag(), vectors_[0]);
    } else {
      add_half(std::make_index_sequence<count / 2>());
      return fold<count / 2>();
    }
  }
  template <std::size_t... k>
  HWY_INLINE void add_half(std::index_sequence<k...> /*first half*/) {
    ((vectors_[k] = hn::Add(vectors_[k], vectors_[k + sizeof...(k)])), ...);
  }
  template <typename D>
  static HWY_INLINE T sum_of_lanes([[maybe_unused]] D d, hn::Vec<D> lanes) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(d) > 1) {
      const hn::Half<D> half;
      return sum_of_lanes(half, hn::Add(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes)));
    }
#endif
    return hn::GetLane(lanes);
  }

  Vector vectors_[kVectors];
};

using FloatSums = Sums<float>;

template <typename AnySums, typename Body, std::size_t... k>
HWY_INLINE void add_whole_terms(std::int64_t i, const Body& body,
                                std::index_sequence<k...> /*all*/) {
  (body(i + static_cast<int>(k) * AnySums::kLanes, WholeVector(), Index<static_cast<int>(k)>()),
   ...);
}
template <typename Body>
HWY_INLINE void add_first_terms(std::int64_t count, const Body& body) {
  if (count > 0) body(FirstLanes{count < lane_count() ? count : lane_count()});
}
template <typename AnySums, typename Body, std::size_t... k>
HWY_INLINE void add_last_terms(std::int64_t i, std::int64_t end, const Body& body,
                               std::index_sequence<k...> /*all*/) {
  (add_first_terms(end - i - static_cast<int>(k) * AnySums::kLanes,
                   [&](auto lanes) HWY_ATTR {
                     body(i + static_cast<int>(k) * AnySums::kLanes, lanes,
                          Index<static_cast<int>(k)>());
                   }),
   ...);
}

// As for_vectors, for terms that start at `begin`: body(index, lanes, Index<k>) adds to at<k>() of
// a Sums<float>.
template <typename AnySums, typename Body>
HWY_INLINE void for_terms(std::int64_t begin, std::int64_t end, const Body& body) {
  constexpr std::int64_t kGroup = AnySums::kVectors * AnySums::kLanes;
  const auto all = std::make_index_sequence<AnySums::kVectors>();
  std::int64_t i = begin;
  for (; i + kGroup <= end; i += kGroup) add_whole_terms<AnySums>(i, body, all);
  if (i < end) add_last_terms<AnySums>(i, end, body, all);
}

// Calls body(T()) with the storage type of a tensor.
template <typename Body>
HWY_INLINE void with_storage(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float());
    case DType::kBF16:
      return body(bfloat16());
    case DType::kF16:
      return body(float16());
    default:
      PHALANX_CHECK(false, "the CPU kernels compute on f32, bf16 and f16, not on {}",
                    name_of(dtype));
  }
}

// Calls body(T(), S()) with a storage type and the type of the residual stream: T or float.
template <typename Body>
HWY_INLINE void with_stream(DType storage, DType stream, const Body& body) {
  PHALANX_CHECK(stream == storage || stream == DType::kF32, "a stream of {} beside {}",
                name_of(stream), name_of(storage));
  with_storage(storage, [&](auto type) HWY_ATTR {
    if (stream == storage) {
      body(type, type);
    } else {
      body(type, float());
    }
  });
}

// to[i] = from[i], rounded if T is narrower.
template <typename From, typename T>
HWY_INLINE void convert(const From* from, T* to, std::int64_t count) {
  for_vectors(0, count, [=](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(lanes.load(from + i), to + i);
  });
}
template <typename T>
HWY_INLINE void convert(const T* from, T* to, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
