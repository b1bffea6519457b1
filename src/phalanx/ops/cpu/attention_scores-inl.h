// Scores of a tile and what becomes of them: bias, mask, online softmax, dropout. Included once per
// target.
//
// Scores are in base 2, log2(e) (scale q k + bias): the query lanes carry the factor, and
// exponentials need none.

#include "phalanx/ops/cpu/targets.h"

// Highway after targets.h, which configures it.
#include "hwy/contrib/math/math-inl.h"
#include "phalanx/ops/cpu/attention_tiles-inl.h"

#if defined(PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#undef PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#else
#define PHALANX_OPS_CPU_ATTENTION_SCORES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

using SignedTag = hn::RebindToSigned<FloatTag>;

// Calls body(row of the tile, its offset in a score tile) for the keys of a span.
template <typename Body>
HWY_INLINE void for_keys(const KeySpan& span, const Body& body) {
  for (int k = span.first; k < span.last; ++k) {
    body(static_cast<std::size_t>(k), static_cast<std::int64_t>(k) * kBlockRows);
  }
}

// -infinity where the query does not see the key.
inline void mask_scores(const ops::AttentionMask& mask, const QueryBlock& block,
                        const KeyTile& tile, const KeySpan& span, float* scores) {
  const FloatTag d;
  const SignedTag coordinates;
  const std::int64_t lanes = lanes_of(block);
  const auto unseen = hn::Set(d, -kInfinity);
  for_keys(span, [&](std::size_t key, std::int64_t at) HWY_ATTR {
    if (tile.document[key] < 0) return fill(scores + at, lanes, -kInfinity);
    const auto position = hn::Set(coordinates, tile.position[key]);
    const auto document = hn::Set(coordinates, tile.document[key]);
    for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
      auto score = load(scores + at + lane);
      if (mask.causal) {
        const auto queries = hn::Load(coordinates, block.position.data() + lane);
        score = hn::IfThenElse(hn::RebindMask(d, hn::Gt(position, queries)), unseen, score);
      }
      if (mask.documents) {
        const auto queries = hn::Load(coordinates, block.document.data() + lane);
        score = hn::IfThenElse(hn::RebindMask(d, hn::Ne(document, queries)), unseen, score);
      }
      store(score, scores + at + lane);
    }
  });
}

// A [32][64] piece of a matrix whose rows are (head, query) and whose columns are keys, such as the
// bias: where it lies and how it becomes a score tile.
inline void load_key_columns(const QueryBlock& block, const KeyTile& tile, const HeadRows& from,
                             float factor, float* rows, float* lanes) {
  for (int lane = 0; lane < block.count; ++lane) {
    load_row(from.dtype(), block.row(from, lane) + tile.first * size_of(from.dtype()), tile.count,
             rows + lane * kKeyTile, kKeyTile);
  }
  fill(rows + block.count * kKeyTile, (lanes_of(block) - block.count) * kKeyTile, 0.0F);
  rows_to_lanes(rows, kKeyTile, kKeyTile, lanes_of(block), factor, lanes);
}

// The scores of a span: products of packed keys with query lanes, bias, mask.
HWY_INLINE void tile_scores(const AttentionOperands& in, const QueryBlock& block,
                            const KeyTile& tile, const KeySpan& span, const float* keys,
                            const float* query, const ColumnScratch& columns, float* scores) {
  const std::int64_t lanes = lanes_of(block);
  const std::int64_t stride = in.shape.stride;
  product<Left::kRows, Into::kOverwrite>(span.count(), lanes, in.shape.width,
                                         {keys + span.first * stride, stride}, {query, kBlockRows},
                                         scores + span.first * kBlockRows, kBlockRows);
  if (in.bias) {
    load_key_columns(block, tile, *in.bias, kLog2E, columns.rows, columns.lanes);
    for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
      for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
        store(hn::Add(load(scores + at + lane), load(columns.lanes + at + lane)),
              scores + at + lane);
      }
    });
  }
  if (span.masked) mask_scores(in.op.mask, block, tile, span, scores);
}

HWY_INLINE FloatVector column_maximum(const float* scores, const KeySpan& span, FloatVector start) {
  FloatVector maximum[4] = {start, start, start, start};
  for (int k = span.first; k < span.last; k += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      maximum[i] = hn::Max(maximum[i], load(scores + (k + i) * kBlockRows));
    }
  }
  return hn::Max(hn::Max(maximum[0], maximum[1]), hn::Max(maximum[2], maximum[3]));
}

// Scores become exponentials relative to the new maximum (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018); `factor` says by what results that were relative to the old one
// shrink.
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
        float* at = scores + (k + i) * kBlockRows + lane;
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

// log-sum-exp from what softmax knows, and the factors that make outputs of sums.
inline void finish_softmax(const SoftmaxState& softmax, std::int64_t lanes, float kept_factor,
                           float* lse, float* factor) {
  const FloatTag d;
  for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
    const auto sum = load(softmax.sum + lane);
    const auto nothing = hn::Eq(sum, hn::Zero(d));
    const auto logarithm =
        hn::MulAdd(load(softmax.maximum + lane), hn::Set(d, kLn2), hn::Log(d, sum));
    const auto finite = hn::IfThenElse(hn::IsNaN(sum), sum, logarithm);
    store(hn::IfThenElse(nothing, hn::Set(d, -kInfinity), finite), lse + lane);
    store(hn::IfThenZeroElse(nothing, hn::Div(hn::Set(d, kept_factor), sum)), factor + lane);
  }
}

// ---- Dropout of probabilities

// The words of four neighbouring key positions for every lane; made again only when the keys leave
// the four.
class LaneDropout {
 public:
  LaneDropout(const Dropout& dropout, const QueryBlock& block)
      : block_(block),
        lanes_(lanes_of(block)),
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
    const PhiloxWords counter = {four_, static_cast<std::uint32_t>(block_.position[i]),
                                 block_.site[i], block_.sample_low[i]};
    const PhiloxWords words = philox4x32({key_low_, block_.key_high[i]}, counter);
    for (std::size_t w = 0; w < 4; ++w) words_[w][lane] = words[w];
  }
#else
  // As philox4x32. Even and odd lanes go separately, each word in the low half of a 64-bit lane;
  // what the products leave in the high halves, the next multiplication ignores.
  HWY_INLINE void make(std::int64_t lane) {
    const BitsTag bits;
    const WideTag wide;
    const auto position = hn::BitCast(wide, hn::Load(SignedTag(), block_.position.data() + lane));
    const auto site = hn::BitCast(wide, hn::Load(bits, block_.site.data() + lane));
    const auto sample = hn::BitCast(wide, hn::Load(bits, block_.sample_low.data() + lane));
    const auto key = hn::BitCast(wide, hn::Load(bits, block_.key_high.data() + lane));
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

  const QueryBlock& block_;
  std::int64_t lanes_;
  std::uint32_t key_low_;
  std::uint32_t threshold_;
  bool valid_ = false;
  std::uint32_t four_ = 0;
  alignas(64) std::uint32_t words_[4][kBlockRows];
};

// Zeros where dropped. What is kept is not scaled here: that factor goes into the results.
inline void drop(const Dropout& dropout, const QueryBlock& block, const KeyTile& tile,
                 const KeySpan& span, float* probabilities) {
  LaneDropout lanes(dropout, block);
  for_keys(span, [&](std::size_t key, std::int64_t at) HWY_ATTR {
    const std::uint32_t* words = lanes.words(tile.position[key]);
    for (std::int64_t lane = 0; lane < lanes_of(block); lane += lane_count()) {
      float* to = probabilities + at + lane;
      store(hn::IfThenZeroElse(lanes.dropped(words, lane), load(to)), to);
    }
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
