// The scores of a strip and a block, and what follows: bias, mask, online softmax, dropout.
// Included once per target.
//
// Scores are in base 2, log2(e) (scale q k + bias), so exponentials need no further factor.

#include "phalanx/ops/cpu/attention_products-inl.h"

#if defined(PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#undef PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#else
#define PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

using SignedTag = hn::RebindToSigned<FloatTag>;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.693147180559945309417F;

// ---- Exponentials

// 2^f for |f| <= 1/2: the polynomial through 7 Chebyshev nodes, relative error below 3e-9.
inline constexpr float kExpTwo[7] = {1.0F,           0.693147207F,   0.240226509F,   0.0555032723F,
                                     0.00961805668F, 0.00134004282F, 0.000154614447F};

// 2^x for x <= 0, to 1e-7; exactly 0 below -126 (and at -infinity). NaN stays NaN: its payload
// corrupts the exponent, but the product with NaN is NaN.
HWY_INLINE FloatVector exp_two(FloatVector x) {
  const FloatTag d;
  const BitsTag bits;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
  const auto shift = hn::Set(d, 12582912.0F);
  const auto shifted = hn::Add(x, shift);
  const auto fraction = hn::Sub(x, hn::Sub(shifted, shift));
  auto power = hn::Set(d, kExpTwo[6]);
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[5]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[4]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[3]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[2]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[1]));
  power = hn::MulAdd(power, fraction, hn::Set(d, kExpTwo[0]));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  const auto scale = hn::BitCast(d, hn::Add(hn::BitCast(bits, hn::Set(d, 1.0F)), exponent));
  const auto result = hn::Mul(power, scale);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), result);
}

// The number to subtract from scores with this maximum. A row of -infinity must not become NaN.
HWY_INLINE FloatVector finite_or_zero(FloatVector maximum) {
  const FloatTag d;
  return hn::IfThenElseZero(hn::Ne(maximum, hn::Set(d, -kInfinity)), maximum);
}

// ln x for normal x > 0, to 1e-7; NaN stays NaN. x = 2^n m with m within 2^(+-1/2), and ln m = 2
// atanh(t) with t = (m - 1) / (m + 1).
HWY_INLINE FloatVector logarithm(FloatVector x) {
  const FloatTag d;
  const SignedTag integers;
  // Exponents count from sqrt(1/2); these are its bits.
  const auto origin = hn::Set(integers, 0x3f3504f3);
  const auto above = hn::Sub(hn::BitCast(integers, x), origin);
  const auto n = hn::ShiftRight<23>(above);
  const auto m = hn::BitCast(d, hn::Add(hn::And(above, hn::Set(integers, 0x007fffff)), origin));
  const auto one = hn::Set(d, 1.0F);
  const auto t = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const auto square = hn::Mul(t, t);
  auto series = hn::Set(d, 2.0F / 9.0F);
  for (const float term : {2.0F / 7.0F, 2.0F / 5.0F, 2.0F / 3.0F, 2.0F}) {
    series = hn::MulAdd(series, square, hn::Set(d, term));
  }
  const auto result = hn::MulAdd(hn::ConvertTo(d, n), hn::Set(d, kLn2), hn::Mul(series, t));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// ---- Scores

// The factor of the scores: the scale times log2(e). In fp32 the queries carry it. In bf16 the
// scores are multiplied, because queries would be rounded again.
inline float score_factor(const AttentionOperands& in) {
  return static_cast<float>(in.op.scale) * kLog2E;
}
inline float query_factor(const AttentionOperands& in) {
  return in.pairs == nullptr ? score_factor(in) : 1.0F;
}

// Calls body(key of the block, its offset in the scores) for the keys of a span.
template <int kLanes = kStripRows, typename Body>
HWY_INLINE void for_keys(const KeySpan& span, const Body& body) {
  for (int k = span.first; k < span.last; ++k) {
    body(static_cast<std::size_t>(k), static_cast<std::int64_t>(k) * kLanes);
  }
}

// Sets scores to -infinity where the query does not see the key; the rule of visible_span() of
// attention_blocks.h for one query and one key.
template <int kLanes = kStripRows>
void mask_scores(const ops::AttentionMask& mask, const QueryStrip& strip, const KeyBlock& block,
                 const KeySpan& span, float* scores) {
  const FloatTag d;
  const SignedTag coordinates;
  const std::int64_t lanes = lanes_of(strip);
  const auto unseen = hn::Set(d, -kInfinity);
  const auto farthest = hn::Set(coordinates, static_cast<std::int32_t>(std::min<std::int64_t>(
                                                 mask.window - 1, hwy::LimitsMax<std::int32_t>())));
  const KeySpan masked{.first = span.masked_first, .last = span.masked_last};
  for_keys<kLanes>(masked, [&](std::size_t key, std::int64_t at) HWY_ATTR {
    if (block.document[key] < 0) return fill(scores + at, lanes, -kInfinity);
    const auto position = hn::Set(coordinates, block.position[key]);
    const auto document = hn::Set(coordinates, block.document[key]);
    for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
      auto score = load(scores + at + lane);
      if (mask.causal) {
        const auto queries = hn::Load(coordinates, strip.position.data() + lane);
        score = hn::IfThenElse(hn::RebindMask(d, hn::Gt(position, queries)), unseen, score);
        if (mask.window > 0) {
          const auto distance = hn::Sub(queries, position);
          score = hn::IfThenElse(hn::RebindMask(d, hn::Gt(distance, farthest)), unseen, score);
        }
      }
      if (mask.documents) {
        const auto queries = hn::Load(coordinates, strip.document.data() + lane);
        score = hn::IfThenElse(hn::RebindMask(d, hn::Ne(document, queries)), unseen, score);
      }
      store(score, scores + at + lane);
    }
  });
}

// Calls body(first key of the piece, its keys) for the pieces of a span.
template <typename Body>
HWY_INLINE void for_pieces(const KeySpan& span, const Body& body) {
  for (int first = span.first; first < span.last; first += kColumnPiece) {
    body(first, std::min(kColumnPiece, span.last - first));
  }
}

// lanes = factor * the piece of keys from `first` on; zeros past the last key. rows is scratch.
inline void load_columns(const QueryStrip& strip, const KeyBlock& block, const HeadRows& from,
                         int first, int keys, float factor, float* rows, float* lanes) {
  const std::int64_t width = std::min(keys, block.count - first);
  const DType dtype = from.dtype();
  for (int lane = 0; lane < strip.count; ++lane) {
    load_row(dtype, strip.row(from, lane) + (block.first + first) * size_of(dtype), width, factor,
             rows + lane * kColumnPiece, kColumnPiece);
  }
  fill(rows + strip.count * kColumnPiece, (lanes_of(strip) - strip.count) * kColumnPiece, 0.0F);
  transpose(rows, kColumnPiece, lanes_of(strip), keys, lanes, kStripRows);
}

// rows = the piece of keys that these lanes hold.
inline void make_columns(const float* lanes, const QueryStrip& strip, int keys, float* rows) {
  transpose(lanes, kStripRows, round_up(keys, lane_count()), lanes_of(strip), rows, kColumnPiece);
}

// Computes the scores of a span: products of the keys with the query lanes, bias, mask.
inline void make_scores(const AttentionOperands& in, const QueryStrip& strip, const KeyBlock& block,
                        const KeySpan& span, const float* keys, const float* query,
                        const ColumnScratch& columns, float* scores, RowPrefetch& ahead) {
  const std::int64_t lanes = lanes_of(strip);
  const std::int64_t stride = in.groups_of(in.shape.stride);
  product<Left::kRows, Into::kOverwrite>(
      in.pairs, span.count(), lanes, in.groups_of(in.shape.width),
      {keys + span.first * stride, stride}, {query, kStripRows}, scores + span.first * kStripRows,
      kStripRows, nullptr, ahead);
  if (in.pairs != nullptr) {
    alignas(64) float factor[kStripRows];
    fill(factor, kStripRows, score_factor(in));
    rescale(span.count(), lanes, scores + span.first * kStripRows, kStripRows, factor);
  }
  if (in.bias) {
    for_pieces(span, [&](int first, int count) HWY_ATTR {
      load_columns(strip, block, *in.bias, first, count, kLog2E, columns.rows, columns.lanes);
      float* to = scores + first * kStripRows;
      for (std::int64_t at = 0; at < count * kStripRows; at += kStripRows) {
        for (std::int64_t i = at; i < at + lanes; i += lane_count()) {
          store(hn::Add(load(to + i), load(columns.lanes + i)), to + i);
        }
      }
    });
  }
  if (span.masked_first < span.masked_last) mask_scores(in.op.mask, strip, block, span, scores);
}

// ---- Softmax

HWY_INLINE FloatVector column_maximum(const float* scores, const KeySpan& span, FloatVector start) {
  FloatVector maximum[4] = {start, start, start, start};
  for (int k = span.first; k < span.last; k += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      maximum[i] = hn::Max(maximum[i], load(scores + (k + i) * kStripRows));
    }
  }
  return hn::Max(hn::Max(maximum[0], maximum[1]), hn::Max(maximum[2], maximum[3]));
}

// Turns scores into exponentials relative to the new maximum (Milakov and Gimelshein, Online
// normalizer calculation for softmax, 2018). `factor` scales earlier results to the new maximum.
inline void softmax_step(const KeySpan& span, std::int64_t lanes, const SoftmaxState& state,
                         float* scores, float* factor) {
  for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
    const auto old = load(state.maximum + lane);
    const auto maximum = column_maximum(scores + lane, span, old);
    const auto reference = finite_or_zero(maximum);
    const auto shrink = exp_two(hn::Sub(old, reference));
    FloatVector sums[2] = {hn::Mul(load(state.sum + lane), shrink), hn::Zero(FloatTag())};
    for (int k = span.first; k < span.last; k += 2) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        float* at = scores + (k + i) * kStripRows + lane;
        const auto power = exp_two(hn::Sub(load(at), reference));
        sums[i] = hn::Add(sums[i], power);
        store(power, at);
      }
    }
    store(maximum, state.maximum + lane);
    store(hn::Add(sums[0], sums[1]), state.sum + lane);
    store(shrink, factor + lane);
  }
}

// Turns scores into the probabilities that storage keeps.
inline void normalise(const KeySpan& span, std::int64_t lanes, const SoftmaxState& state,
                      DType storage, float* scores) {
  const FloatTag d;
  with_storage(storage, [&](auto type) HWY_ATTR {
    for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
      const auto reference = finite_or_zero(load(state.maximum + lane));
      const auto sum = load(state.sum + lane);
      const auto nothing = hn::Eq(sum, hn::Zero(d));
      const auto inverse = hn::IfThenZeroElse(nothing, hn::Div(hn::Set(d, 1.0F), sum));
      for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
        float* to = scores + at + lane;
        const auto power = exp_two(hn::Sub(load(to), reference));
        store(round_to<decltype(type)>(hn::Mul(inverse, power)), to);
      });
    }
  });
}

// Computes log-sum-exp, and the factors that turn sums into outputs.
inline void finish_softmax(const SoftmaxState& softmax, std::int64_t lanes, float kept_factor,
                           float* lse, float* factor) {
  const FloatTag d;
  for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
    const auto sum = load(softmax.sum + lane);
    const auto nothing = hn::Eq(sum, hn::Zero(d));
    const auto finite = hn::MulAdd(load(softmax.maximum + lane), hn::Set(d, kLn2), logarithm(sum));
    store(hn::IfThenElse(nothing, hn::Set(d, -kInfinity), finite), lse + lane);
    store(hn::IfThenZeroElse(nothing, hn::Div(hn::Set(d, kept_factor), sum)), factor + lane);
  }
}

// ---- Dropout of probabilities

// The Philox words of four neighbouring key positions for every lane. They are recomputed only when
// the keys leave the four.
class LaneDropout {
 public:
  LaneDropout(const Dropout& dropout, const QueryStrip& strip)
      : strip_(strip),
        lanes_(lanes_of(strip)),
        key_low_(dropout.key.low),
        threshold_(dropout_threshold(dropout.probability)) {}

  // The words of one key for all lanes.
  HWY_INLINE const std::uint32_t* words(std::int32_t key_position) {
    const auto inner = static_cast<std::uint32_t>(key_position);
    if (!valid_ || inner / 4 != four_) {
      four_ = inner / 4;
      valid_ = true;
      for (std::int64_t lane = 0; lane < lanes_; lane += lane_count()) make(lane);
    }
    return words_[inner % 4];
  }
  HWY_INLINE hn::Mask<FloatTag> dropped(const std::uint32_t* words, std::int64_t lane) const {
    const BitsTag bits;
    return hn::RebindMask(FloatTag(),
                          hn::Lt(hn::Load(bits, words + lane), hn::Set(bits, threshold_)));
  }

 private:
#if HWY_TARGET == HWY_SCALAR
  void make(std::int64_t lane) {
    const auto i = static_cast<std::size_t>(lane);
    const PhiloxWords counter = {four_, static_cast<std::uint32_t>(strip_.position[i]),
                                 strip_.site[i], strip_.sample_low[i]};
    const PhiloxWords words = philox4x32({key_low_, strip_.key_high[i]}, counter);
    for (std::size_t w = 0; w < 4; ++w) words_[w][lane] = words[w];
  }
#else
  // As philox4x32. Even and odd lanes are computed apart, each word in the low half of a 64-bit
  // lane. The next multiplication ignores the high halves.
  HWY_INLINE void make(std::int64_t lane) {
    const BitsTag bits;
    const WideTag wide;
    const auto position = hn::BitCast(wide, hn::Load(SignedTag(), strip_.position.data() + lane));
    const auto site = hn::BitCast(wide, hn::Load(bits, strip_.site.data() + lane));
    const auto sample = hn::BitCast(wide, hn::Load(bits, strip_.sample_low.data() + lane));
    const auto key = hn::BitCast(wide, hn::Load(bits, strip_.key_high.data() + lane));
    Wide even[4] = {hn::Set(wide, four_), position, site, sample};
    Wide odd[4] = {even[0], hn::ShiftRight<32>(position), hn::ShiftRight<32>(site),
                   hn::ShiftRight<32>(sample)};
    auto even_key = key;
    auto odd_key = hn::ShiftRight<32>(key);
    const auto weyl = hn::Set(wide, kPhiloxWeyl1);
    std::uint32_t key_low = key_low_;
    for (int round = 0; round < 10; ++round) {
      const auto low = hn::Set(wide, key_low);
      philox_round(even, low, even_key);
      philox_round(odd, low, odd_key);
      key_low += kPhiloxWeyl0;
      even_key = hn::Add(even_key, weyl);
      odd_key = hn::Add(odd_key, weyl);
    }
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const auto merged =
          hn::OddEven(hn::BitCast(bits, hn::ShiftLeft<32>(odd[w])), hn::BitCast(bits, even[w]));
      hn::Store(merged, bits, words_[w] + lane);
    }
  }

  using WideTag = hn::RepartitionToWide<BitsTag>;
  using Wide = hn::Vec<WideTag>;
  static HWY_INLINE void philox_round(Wide (&word)[4], Wide key_low, Wide key_high) {
    const BitsTag bits;
    const auto product0 =
        hn::MulEven(hn::BitCast(bits, word[0]), hn::Set(bits, kPhiloxMultiplier0));
    const auto product1 =
        hn::MulEven(hn::BitCast(bits, word[2]), hn::Set(bits, kPhiloxMultiplier1));
    word[0] = hn::Xor3(hn::ShiftRight<32>(product1), word[1], key_low);
    word[1] = product1;
    word[2] = hn::Xor3(hn::ShiftRight<32>(product0), word[3], key_high);
    word[3] = product0;
  }
#endif

  const QueryStrip& strip_;
  std::int64_t lanes_;
  std::uint32_t key_low_;
  std::uint32_t threshold_;
  bool valid_ = false;
  std::uint32_t four_ = 0;
  alignas(64) std::uint32_t words_[4][kStripRows];
};

// Sets dropped probabilities to 0. Kept ones are not scaled here; the results carry that factor.
inline void drop(const Dropout& dropout, const QueryStrip& strip, const KeyBlock& block,
                 const KeySpan& span, float* probabilities) {
  LaneDropout lanes(dropout, strip);
  for_keys(span, [&](std::size_t key, std::int64_t at) HWY_ATTR {
    const std::uint32_t* words = lanes.words(block.position[key]);
    for (std::int64_t lane = 0; lane < lanes_of(strip); lane += lane_count()) {
      float* to = probabilities + at + lane;
      store(hn::IfThenZeroElse(lanes.dropped(words, lane), load(to)), to);
    }
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
