// Two vectors of floats of neighbours in memory at a time. Of bf16 they are the elements with even
// and with odd indices: a shift and a mask widen both, a blend joins them again, which takes half
// the instructions of widening and narrowing each half. Included once per target.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_PAIRS_INL_H_
#undef PHALANX_OPS_CPU_PAIRS_INL_H_
#else
#define PHALANX_OPS_CPU_PAIRS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Whether pairs of this type are even and odd elements. Other types have no pairs.
template <typename T>
inline constexpr bool kHasPairs = kMaxLanes > 1 && std::is_same_v<T, bfloat16>;

// Elements of a pair.
HWY_INLINE std::int64_t pair_count() { return 2 * lane_count(); }

// Terms of a sum that are added at a time (PairSums).
inline constexpr std::int64_t kPairTerms = 64;

struct FloatPair {
  FloatVector even, odd;
};

#if HWY_TARGET != HWY_SCALAR
using PairTag = hn::Repartition<std::uint16_t, FloatTag>;

HWY_INLINE FloatPair widen_pair(hn::Vec<PairTag> elements) {
  const FloatTag d;
  const BitsTag tag;
  const auto bits = hn::BitCast(tag, elements);
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)),
          hn::BitCast(d, hn::And(bits, hn::Set(tag, 0xffff0000U)))};
}

HWY_INLINE FloatPair load_pair(const bfloat16* from) {
  return widen_pair(hn::LoadU(PairTag(), reinterpret_cast<const std::uint16_t*>(from)));
}

// The first `count` of a pair's elements, zeros behind them.
HWY_INLINE FloatPair load_first_pair(const bfloat16* from, std::int64_t count) {
#if HWY_TARGET == HWY_AVX3  // masked loads do not fault; AVX2 has none of 16 bits
  const PairTag tag;
  return widen_pair(hn::MaskedLoad(hn::FirstN(tag, static_cast<std::size_t>(count)), tag,
                                   reinterpret_cast<const std::uint16_t*>(from)));
#else
  HWY_ALIGN bfloat16 elements[2 * kMaxLanes] = {};
  std::memcpy(elements, from, static_cast<std::size_t>(count) * sizeof(bfloat16));
  return load_pair(elements);
#endif
}

// As store() of the elements one by one. kNumbers: no element is NaN.
template <bool kNumbers = false>
HWY_INLINE void store_pair(const FloatPair& pair, bfloat16* to) {
  const PairTag tag;
  const auto even = hn::ShiftRight<16>(round_to_upper_half<kNumbers>(pair.even));
  const auto odd = round_to_upper_half<kNumbers>(pair.odd);
  hn::StoreU(hn::OddEven(hn::BitCast(tag, odd), hn::BitCast(tag, even)), tag,
             reinterpret_cast<std::uint16_t*>(to));
}

// FloatSums of terms that come in pairs: the partial sums with even and with odd numbers.
struct PairSums {
  using Half = Sums<float, 32>;
  static constexpr auto kAll = std::make_index_sequence<Half::kVectors>();

  Half even, odd;

  HWY_INLINE PairSums() : even(), odd() {}
  // The bits of FloatSums::total(), whose last step adds the odd numbers' sum to the even ones'.
  HWY_INLINE float total() const { return even.total() + odd.total(); }
};

// Adds a[i] b[i] to the sums, for at most kPairTerms terms; kWhole: for as many.
template <bool kWhole, std::size_t... k>
HWY_INLINE void add_pair_products(const bfloat16* a, const bfloat16* b, std::int64_t count,
                                  PairSums& sums, std::index_sequence<k...> /*all*/) {
  const auto add = [&](std::int64_t i, FloatVector& even, FloatVector& odd) HWY_ATTR {
    if (!kWhole && i >= count) return;
    const bool whole = kWhole || i + pair_count() <= count;
    const FloatPair left = whole ? load_pair(a + i) : load_first_pair(a + i, count - i);
    const FloatPair right = whole ? load_pair(b + i) : load_first_pair(b + i, count - i);
    even = hn::MulAdd(left.even, right.even, even);
    odd = hn::MulAdd(left.odd, right.odd, odd);
  };
  (add(static_cast<std::int64_t>(k) * pair_count(), sums.even.at<static_cast<int>(k)>(),
       sums.odd.at<static_cast<int>(k)>()),
   ...);
}

// The sum of a[i] b[i], in the order of FloatSums.
HWY_INLINE float pair_dot(const bfloat16* a, const bfloat16* b, std::int64_t count) {
  PairSums sums;
  std::int64_t i = 0;
  for (; i + kPairTerms <= count; i += kPairTerms) {
    add_pair_products<true>(a + i, b + i, kPairTerms, sums, PairSums::kAll);
  }
  if (i < count) add_pair_products<false>(a + i, b + i, count - i, sums, PairSums::kAll);
  return sums.total();
}

template <typename Add, std::size_t... k>
HWY_INLINE void add_pair_terms(const bfloat16* x, const Add& add, PairSums& sums,
                               std::index_sequence<k...> /*all*/) {
  const auto add_pair = [&](std::int64_t i, FloatVector& even, FloatVector& odd) HWY_ATTR {
    const FloatPair value = load_pair(x + i);
    even = add(even, value.even);
    odd = add(odd, value.odd);
  };
  (add_pair(static_cast<std::int64_t>(k) * pair_count(), sums.even.at<static_cast<int>(k)>(),
            sums.odd.at<static_cast<int>(k)>()),
   ...);
}

// A sum over x, in the order of FloatSums: add(sum, elements) returns the sum with theirs. `count`
// is a multiple of kPairTerms.
template <typename Add>
HWY_INLINE float pair_sum(const bfloat16* x, std::int64_t count, const Add& add) {
  PairSums sums;
  for (std::int64_t i = 0; i < count; i += kPairTerms) {
    add_pair_terms(x + i, add, sums, PairSums::kAll);
  }
  return sums.total();
}

template <bool kNumbers, typename Body, typename To, typename... Pairs>
HWY_INLINE void map_pair(const Body& body, To* to, const Pairs&... from) {
  store_pair<kNumbers>({body(from.even...), body(from.odd...)}, to);
}
#endif

// to[i] = body(from[i]...) of rows of a type each; in pairs if all of them have pairs. kNumbers as
// in store_pair.
template <bool kNumbers = false, typename Body, typename To, typename... From>
HWY_INLINE void map(std::int64_t begin, std::int64_t end, const Body& body, To* to,
                    const From*... from) {
  std::int64_t i = begin;
  if constexpr (kHasPairs<To> && (kHasPairs<From> && ...)) {
    for (; i + pair_count() <= end; i += pair_count()) {
      map_pair<kNumbers>(body, to + i, load_pair(from + i)...);
    }
  }
  for_vectors(i, end, [&](std::int64_t k, auto lanes) HWY_ATTR {
    lanes.store(body(lanes.load(from + k)...), to + k);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
