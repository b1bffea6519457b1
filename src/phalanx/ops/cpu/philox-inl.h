// Dropout by the coordinates of base/philox.h, many elements at a time. Included once per target.

#include <cstdint>

#include "phalanx/base/philox.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/storage-inl.h"
#include "phalanx/ops/rows.h"

#if defined(PHALANX_OPS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_PHILOX_INL_H_
#undef PHALANX_OPS_CPU_PHILOX_INL_H_
#else
#define PHALANX_OPS_CPU_PHILOX_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The coordinates of a row; only `inner` varies. In a hidden row outer is the position. In a row of
// attention probabilities outer is the query position, and the site includes the head.
struct DropoutRow {
  PhiloxKey key;        // of the sample
  PhiloxWords counter;  // with inner = 0
  std::uint32_t threshold;
  float scale;  // of kept elements

  DropoutRow(const Dropout& dropout, std::uint64_t sample, std::uint32_t site, std::uint32_t outer)
      : key(dropout_sample_key(dropout.key, sample)),
        counter(dropout_counter(sample, site, outer, 0)),
        threshold(dropout_threshold(dropout.probability)),
        scale(static_cast<float>(1.0 / (1.0 - dropout.probability))) {}

  // The multiplier of element `inner`: scale, or 0 if dropped. For one element at a time.
  float factor(std::uint32_t inner) const {
    PhiloxWords at = counter;
    at[0] = inner / 4;
    return philox4x32(key, at)[inner % 4] < threshold ? 0.0F : scale;
  }
};

#if HWY_TARGET != HWY_SCALAR
// The keys of all rounds, the same in every lane.
struct RoundKeys {
  using Wide = hn::RepartitionToWide<BitsTag>;
  static constexpr int kRounds = 10;
  hn::Vec<Wide> low[kRounds], high[kRounds];

  explicit HWY_INLINE RoundKeys(PhiloxKey key) {
    for (int round = 0; round < kRounds; ++round) {
      low[round] = hn::Set(Wide(), key.low);
      high[round] = hn::Set(Wide(), key.high);
      key.low += kPhiloxWeyl0;
      key.high += kPhiloxWeyl1;
    }
  }
};

// The words of kPairs pairs of vectors: neighbouring elements from 4 * block on. Rounds of the
// pairs are computed side by side, because each round waits for the one before.
template <int kPairs>
HWY_INLINE void philox_words(const DropoutRow& row, const RoundKeys& keys, std::uint32_t block,
                             BitsVector (&words)[2 * kPairs]) {
  // Every 64-bit lane holds one word of a block in its low half; a widening multiplication ignores
  // the high half. Even lanes take the first half of the blocks, odd lanes the second, because
  // interleaving within 128 bits leaves this order.
  const hn::RepartitionToWide<BitsTag> wide;
  const BitsTag narrow;
  const auto lanes = static_cast<std::uint32_t>(hn::Lanes(wide));
  const auto lane = hn::Iota(wide, 0);
  const auto odd = hn::And(lane, hn::Set(wide, 1));
  const auto blocks =
      hn::Add(hn::ShiftRight<1>(lane),
              hn::IfThenElseZero(hn::Eq(odd, hn::Set(wide, 1)), hn::Set(wide, lanes / 2)));
  hn::Vec<decltype(wide)> word[kPairs][4];
  HWY_UNROLL(4)
  for (int p = 0; p < kPairs; ++p) {
    word[p][0] = hn::Add(blocks, hn::Set(wide, block + p * lanes));
    word[p][1] = hn::Set(wide, row.counter[1]);
    word[p][2] = hn::Set(wide, row.counter[2]);
    word[p][3] = hn::Set(wide, row.counter[3]);
  }
  const auto multiplier0 = hn::Set(narrow, kPhiloxMultiplier0);
  const auto multiplier1 = hn::Set(narrow, kPhiloxMultiplier1);
  // A shuffle, because the products keep the shift's port busy.
  const auto upper = [&](auto product) HWY_ATTR {
    return hn::BitCast(wide, hn::Shuffle2301(hn::BitCast(narrow, product)));
  };
  HWY_UNROLL(10)
  for (int round = 0; round < RoundKeys::kRounds; ++round) {
    HWY_UNROLL(4)
    for (int p = 0; p < kPairs; ++p) {
      const auto product0 = hn::MulEven(hn::BitCast(narrow, word[p][0]), multiplier0);
      const auto product1 = hn::MulEven(hn::BitCast(narrow, word[p][2]), multiplier1);
      word[p][0] = hn::Xor3(upper(product1), word[p][1], keys.low[round]);
      word[p][1] = product1;
      word[p][2] = hn::Xor3(upper(product0), word[p][3], keys.high[round]);
      word[p][3] = product0;
    }
  }
  const auto low_half = hn::Set(wide, 0xffffffffU);
  HWY_UNROLL(4)
  for (int p = 0; p < kPairs; ++p) {
    const auto pair01 = hn::Or(hn::And(word[p][0], low_half), hn::ShiftLeft<32>(word[p][1]));
    const auto pair23 = hn::Or(hn::And(word[p][2], low_half), hn::ShiftLeft<32>(word[p][3]));
    words[2 * p] = hn::BitCast(narrow, hn::InterleaveLower(wide, pair01, pair23));
    words[2 * p + 1] = hn::BitCast(narrow, hn::InterleaveUpper(wide, pair01, pair23));
  }
}
#endif

// Factors are computed several vectors at a time, so buffers are rounded up to this.
inline constexpr std::int64_t kDropoutGranularity = 128;
constexpr std::int64_t dropout_buffer_size(std::int64_t count) {
  return (count + kDropoutGranularity - 1) / kDropoutGranularity * kDropoutGranularity;
}

// factors[i] = the multiplier of element first + i (scale or 0). first is a multiple of 4. factors
// has room for dropout_buffer_size(count) floats.
HWY_INLINE void dropout_factors(const DropoutRow& row, std::int64_t first, std::int64_t count,
                                float* HWY_RESTRICT factors) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < count; i += 4) {
    PhiloxWords at = row.counter;
    at[0] = static_cast<std::uint32_t>((first + i) / 4);
    for (const std::uint32_t word : philox4x32(row.key, at)) {
      *factors++ = word < row.threshold ? 0.0F : row.scale;
    }
  }
#else
  constexpr int kPairs = kMaxLanes >= 16 ? 4 : 2;  // for which there are registers
  const FloatTag d;
  const std::int64_t step = lane_count();
  const auto threshold = hn::Set(BitsTag(), row.threshold);
  const auto scale = hn::Set(d, row.scale);
  const RoundKeys keys(row.key);
  for (std::int64_t i = 0; i < count; i += 2 * kPairs * step) {
    BitsVector words[2 * kPairs];
    philox_words<kPairs>(row, keys, static_cast<std::uint32_t>((first + i) / 4), words);
    HWY_UNROLL(8)
    for (int k = 0; k < 2 * kPairs; ++k) {
      const auto dropped = hn::RebindMask(d, hn::Lt(words[k], threshold));
      store(hn::IfThenZeroElse(dropped, scale), factors + i + k * step);
    }
  }
#endif
}

// value * factor; exactly 0 if dropped, even for NaN and infinity.
HWY_INLINE FloatVector apply_dropout(FloatVector value, FloatVector factor) {
  return hn::IfThenElseZero(hn::Ne(factor, hn::Zero(FloatTag())), hn::Mul(value, factor));
}

// Dropout of hidden activations [s, b, h] by the coordinates of their rows.
class HiddenDropout {
 public:
  HiddenDropout(const Dropout& dropout, const RowCoordinates& rows)
      : dropout_(dropout),
        sample_(dropout.probability > 0.0 ? dense<std::int64_t>(rows.sample) : nullptr),
        position_(dropout.probability > 0.0 ? dense<std::int32_t>(rows.position) : nullptr) {}

  // Whether the probability is 0.
  bool keeps_all() const { return dropout_.probability <= 0.0; }

  // for_vectors over a row: calls body(index, lanes, drop); drop(value) applies dropout to a
  // vector.
  template <typename Body>
  HWY_INLINE void for_row(std::int64_t r, std::int64_t columns, const Body& body) const {
    if (keeps_all()) {
      const auto keep = [](FloatVector value) HWY_ATTR { return value; };
      for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR { body(i, lanes, keep); });
      return;
    }
    const DropoutRow row(dropout_, static_cast<std::uint64_t>(sample_[r]), dropout_.site,
                         static_cast<std::uint32_t>(position_[r]));
    // Blocks of random numbers have four neighbours: the first may begin before this rank's part.
    const std::int64_t before = dropout_.first_feature % 4;
    HWY_ALIGN float buffer[kChunk + kDropoutGranularity];
    const float* factors = buffer + before;
    for (std::int64_t begin = 0; begin < columns; begin += kChunk) {
      const std::int64_t end = begin + kChunk < columns ? begin + kChunk : columns;
      dropout_factors(row, dropout_.first_feature - before + begin, end - begin + before, buffer);
      for_vectors(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
        const auto factor = HWY_NAMESPACE::load(factors + (i - begin));
        const auto drop = [factor](FloatVector value)
                              HWY_ATTR { return apply_dropout(value, factor); };
        body(i, lanes, drop);
      });
    }
  }

 private:
  static constexpr std::int64_t kChunk = 512;  // a multiple of kDropoutGranularity

  const Dropout& dropout_;
  const std::int64_t* sample_;
  const std::int32_t* position_;
};

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
