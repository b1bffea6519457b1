// One row of logits: its largest, the exponentials relative to that, their sum, and the gradient.
// Included once per target.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "phalanx/ops/cpu/exponential-inl.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"

#if defined(PHALANX_OPS_CPU_LOGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_LOGITS_INL_H_
#undef PHALANX_OPS_CPU_LOGITS_INL_H_
#else
#define PHALANX_OPS_CPU_LOGITS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Columns whose logits and exponentials stay in the first-level cache.
constexpr std::int64_t kLogitBlock = 2048;

// The largest logit so far and the sum of exp(x - largest); NaN where that is undefined.
struct RowStatistics {
  float largest = -std::numeric_limits<float>::infinity();
  double sum = 0.0;

  // Adds more columns. NaN stays the largest.
  void add(float block_largest, double block_sum) {
    if (block_largest == -std::numeric_limits<float>::infinity()) return;
    if (!std::isnan(largest) && !(block_largest <= largest)) {
      sum *= std::exp(static_cast<double>(largest) - block_largest);
      largest = block_largest;
    }
    sum += block_sum * std::exp(static_cast<double>(block_largest) - largest);
  }
};

// The largest of some logits; NaN if one is NaN.
template <typename T>
HWY_INLINE float largest_of(const T* x, std::int64_t count) {
  const FloatTag d;
  const std::int64_t step = lane_count();
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto lowest = largest;
  auto numbers = hn::FirstN(d, kMaxLanes);
  std::int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    const auto x0 = load(x + i);
    const auto x1 = load(x + i + step);
    const auto x2 = load(x + i + 2 * step);
    const auto x3 = load(x + i + 3 * step);
    largest = hn::Max(largest, hn::Max(hn::Max(x0, x1), hn::Max(x2, x3)));
    numbers = hn::And(numbers, hn::And(hn::And(hn::Eq(x0, x0), hn::Eq(x1, x1)),
                                       hn::And(hn::Eq(x2, x2), hn::Eq(x3, x3))));
  }
  for_vectors(i, count, [&](std::int64_t k, auto lanes) HWY_ATTR {
    const auto rest = lanes.valid_or(lanes.load(x + k), lowest);
    largest = hn::Max(largest, rest);
    numbers = hn::And(numbers, hn::Eq(rest, rest));
  });
  if (!hn::AllTrue(d, numbers)) return std::numeric_limits<float>::quiet_NaN();
  // Turns -0 into 0, because either of them may be the largest.
  return hn::GetLane(hn::MaxOfLanes(d, largest)) + 0.0F;
}

// The sum of exp(x - largest). Stores the exponentials in `powers` unless that is null; `powers`
// may be x. Prefetches later blocks, and what will be stored.
template <bool kKeep, typename T>
HWY_INLINE float sum_of_powers(const T* x, std::int64_t count, float largest, float* powers) {
  const auto shift = hn::Set(FloatTag(), largest);
  FloatSums sums;
  for_terms<FloatSums>(0, count, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    prefetch(x + i, kLogitBlock * static_cast<std::int64_t>(sizeof(T)));
    prefetch_second_level(x + i + 2 * kLogitBlock);
    if constexpr (kKeep) prefetch_second_level(powers + i + kLogitBlock / 2);
    const auto power = exponential_or_zero(hn::Sub(lanes.load(x + i), shift));
    if constexpr (kKeep) lanes.store(power, powers + i);
    auto& sum = sums.at<decltype(part)::value>();
    sum = hn::Add(sum, lanes.valid(power));
  });
  return sums.total();
}

// Floats for the exponentials of a row.
inline std::int64_t powers_size(std::int64_t columns) {
  return ceil_div(columns, kPairTerms) * kPairTerms;
}

#if HWY_TARGET != HWY_SCALAR
// The least and the largest of some logits; NaN both if one is NaN.
struct LogitRange {
  float lowest, largest;
};

// The smallest and largest patterns of some bf16 as integers with and without a sign. Patterns of
// numbers from 0 on rise with the numbers, those below 0 fall.
HWY_INLINE LogitRange range_of_patterns(int largest_signed, int largest, int lowest) {
  constexpr int kInfinity = 0x7f80, kSign = 0x8000;
  if (largest_signed > kInfinity || largest > (kSign | kInfinity)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan};
  }
  const auto number = [](int bits) { return to_float(bfloat16{static_cast<std::uint16_t>(bits)}); };
  // 0 instead of -0, as either of them may be the largest.
  return {number(largest >= kSign ? largest : lowest),
          number(largest_signed >= 0 ? largest_signed : lowest) + 0.0F};
}

HWY_INLINE LogitRange range_of(const bfloat16* x, std::int64_t count) {
  const PairTag tag;
  const hn::RebindToSigned<PairTag> signed_tag;
  const std::int64_t step = pair_count();
  auto lowest = hn::Set(tag, x[0].bits);
  auto largest = lowest;
  auto largest_signed = hn::BitCast(signed_tag, lowest);
  const auto add = [&](hn::Vec<PairTag> bits) HWY_ATTR {
    lowest = hn::Min(lowest, bits);
    largest = hn::Max(largest, bits);
    largest_signed = hn::Max(largest_signed, hn::BitCast(signed_tag, bits));
  };
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    add(hn::LoadU(tag, reinterpret_cast<const std::uint16_t*>(x + i)));
  }
  if (i < count) {
    HWY_ALIGN std::uint16_t last[2 * kMaxLanes];
    std::fill_n(last, step, x[0].bits);
    std::memcpy(last, x + i, static_cast<std::size_t>(count - i) * sizeof(bfloat16));
    add(hn::Load(tag, last));
  }
  return range_of_patterns(hn::GetLane(hn::MaxOfLanes(signed_tag, largest_signed)),
                           hn::GetLane(hn::MaxOfLanes(tag, largest)),
                           hn::GetLane(hn::MinOfLanes(tag, lowest)));
}

// Exponentials of kPairTerms logits, added to the sums. kMasked: those below kLowestExponent are 0.
template <bool kKeep, bool kMasked, std::size_t... k>
HWY_INLINE void add_powers(const bfloat16* x, FloatVector shift, float* powers, PairSums& sums,
                           std::index_sequence<k...> /*all*/) {
  const auto power_of = [&](FloatVector logit) HWY_ATTR {
    const auto exponent = hn::Sub(logit, shift);
    return kMasked ? exponential_or_zero(exponent) : exponential(exponent);
  };
  const auto add = [&](std::int64_t i, FloatVector& even_sum, FloatVector& odd_sum) HWY_ATTR {
    const FloatPair logits = load_pair(x + i);
    const auto even = power_of(logits.even);
    const auto odd = power_of(logits.odd);
    if constexpr (kKeep) {
      store(even, powers + i);
      store(odd, powers + i + lane_count());
    }
    even_sum = hn::Add(even_sum, even);
    odd_sum = hn::Add(odd_sum, odd);
  };
  (add(static_cast<std::int64_t>(k) * pair_count(), sums.even.at<static_cast<int>(k)>(),
       sums.odd.at<static_cast<int>(k)>()),
   ...);
}

// As sum_of_powers. Pairs of exponentials are stored, even ones before odd ones, so that `powers`
// has room for a multiple of kPairTerms.
template <bool kKeep, bool kMasked>
HWY_INLINE float sum_of_pair_powers(const bfloat16* x, std::int64_t count, float largest,
                                    float* powers) {
  const auto shift = hn::Set(FloatTag(), largest);
  PairSums sums;
  std::int64_t i = 0;
  for (; i + kPairTerms <= count; i += kPairTerms) {
    for (std::int64_t line = 0; line < kPairTerms; line += 32) {
      prefetch(x + i + line, kLogitBlock * static_cast<std::int64_t>(sizeof(bfloat16)));
      prefetch_second_level(x + i + line + 2 * kLogitBlock);
    }
    add_powers<kKeep, kMasked>(x + i, shift, powers + i, sums, PairSums::kAll);
  }
  if (i < count) {
    constexpr bfloat16 kNoLogit{0xff80};  // -infinity, whose exponential is 0
    bfloat16 last[kPairTerms];
    std::fill_n(last, kPairTerms, kNoLogit);
    std::copy(x + i, x + count, last);
    add_powers<kKeep, true>(last, shift, powers + i, sums, PairSums::kAll);
  }
  return sums.total();
}

// to = scale * powers for `count` elements of sum_of_pair_powers. kNumbers: scale is finite.
template <bool kNumbers>
HWY_INLINE void scale_pairs(const float* powers, FloatVector scale, std::int64_t count,
                            bfloat16* to) {
  const auto scaled = [&](std::int64_t i) HWY_ATTR {
    return FloatPair{hn::Mul(load(powers + i), scale),
                     hn::Mul(load(powers + i + lane_count()), scale)};
  };
  std::int64_t i = 0;
  for (; i + pair_count() <= count; i += pair_count()) store_pair<kNumbers>(scaled(i), to + i);
  if (i < count) {
    bfloat16 last[2 * kMaxLanes];
    store_pair<kNumbers>(scaled(i), last);
    std::copy(last, last + (count - i), to + i);
  }
}

#endif

// A block's largest logit and the sum of its exponentials, which `powers` gets if kKeep.
struct BlockStatistics {
  float largest, sum;
};
template <bool kKeep, typename T>
HWY_INLINE BlockStatistics block_statistics(const T* x, std::int64_t count, float* powers) {
  if constexpr (kHasPairs<T>) {
    const auto [lowest, largest] = range_of(x, count);
    const bool masked = !(lowest - largest >= kLowestExponent);
    return {largest, masked ? sum_of_pair_powers<kKeep, true>(x, count, largest, powers)
                            : sum_of_pair_powers<kKeep, false>(x, count, largest, powers)};
  } else {
    const float largest = largest_of(x, count);
    return {largest, sum_of_powers<kKeep>(x, count, largest, powers)};
  }
}

// One pass over a row. For a gradient, `powers` receives the row's exponentials, each relative to
// the largest logit of its block, and `largest` the block's largest logit. Otherwise both are null.
template <typename T>
HWY_INLINE RowStatistics statistics_of(const T* x, std::int64_t vocabulary, float* powers,
                                       float* largest) {
  RowStatistics row;
  const Blocks blocks{vocabulary, kLogitBlock};
  for (std::int64_t block = 0; block < blocks.count(); ++block) {
    const std::int64_t begin = blocks.begin(block);
    const std::int64_t count = blocks.end(block) - begin;
    BlockStatistics of{};
    if (powers == nullptr) {
      of = block_statistics<false>(x + begin, count, powers);
    } else {
      of = block_statistics<true>(x + begin, count, powers + begin);
      largest[block] = of.largest;
    }
    row.add(of.largest, of.sum);
  }
  // exponential_or_zero returns 0 for infinity - infinity.
  if (!std::isfinite(row.largest)) row.sum = std::numeric_limits<double>::quiet_NaN();
  return row;
}

// Corrects factor * exp(x - largest) / sum at the target (if not below 0) and in the padding.
template <typename To>
HWY_INLINE void finish_gradient(const RowStatistics& row, double factor, double at_target,
                                std::int64_t target, std::int64_t vocabulary, std::int64_t columns,
                                To* dlogits) {
  if (target >= 0) {
    const double probability = std::exp(at_target - row.largest) / row.sum;
    store_first(hn::Set(FloatTag(), static_cast<float>(factor * (probability - 1.0))),
                dlogits + target, 1);
  }
  std::fill(dlogits + vocabulary, dlogits + columns, To());
}

// dlogits = factor * (exp(x - largest) / sum - onehot(target)). A target below 0 is in no column. x
// may be dlogits.
template <typename From, typename To>
HWY_INLINE void row_gradient(const From* x, const RowStatistics& row, double factor,
                             std::int64_t target, std::int64_t vocabulary, std::int64_t columns,
                             To* dlogits) {
  const FloatTag d;
  const double at_target = target < 0 ? 0.0 : hn::GetLane(load_first(x + target, 1));
  const auto shift = hn::Set(d, row.largest);
  const auto scale = hn::Set(d, static_cast<float>(factor / row.sum));
  const auto body = [&](FloatVector logit) HWY_ATTR {
    return hn::Mul(exponential_or_zero(hn::Sub(logit, shift)), scale);
  };
  map(0, vocabulary, body, dlogits, x);
  finish_gradient(row, factor, at_target, target, vocabulary, columns, dlogits);
}

// As row_gradient, from the exponentials that statistics_of<From> stored; dlogits may be the same
// memory.
template <typename From, typename To>
HWY_INLINE void scale_powers(const float* powers, const float* largest, const RowStatistics& row,
                             double factor, std::int64_t vocabulary, To* dlogits) {
  const Blocks blocks{vocabulary, kLogitBlock};
  for (std::int64_t block = 0; block < blocks.count(); ++block) {
    const double shrink = std::exp(static_cast<double>(largest[block]) - row.largest);
    const auto scale = static_cast<float>(factor * shrink / row.sum);
    const auto scales = hn::Set(FloatTag(), scale);
    const std::int64_t begin = blocks.begin(block);
    if constexpr (kHasPairs<From>) {
      const std::int64_t count = blocks.end(block) - begin;
      if (std::isfinite(scale)) {
        scale_pairs<true>(powers + begin, scales, count, dlogits + begin);
      } else {
        scale_pairs<false>(powers + begin, scales, count, dlogits + begin);
      }
    } else {
      for_vectors(begin, blocks.end(block), [&](std::int64_t i, auto lanes) HWY_ATTR {
        lanes.store(hn::Mul(lanes.load(powers + i), scales), dlogits + i);
      });
    }
  }
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
