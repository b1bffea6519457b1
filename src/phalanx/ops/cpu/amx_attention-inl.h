// Operands of attention in AMX's tiles: rows of bf16, copied, paired and turned; what comes between
// the products of scores and their exponentials. Included once per target.
//
// Rows of bf16 are [rows][padded width], zeros past the width. Pairs of two rows are
// [rows / 2][padded width] of 32 bits: the right operand of a product over rows. Turned rows are
// [padded width / 2][rows] of 32 bits: the right operand of a product over the width.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "phalanx/ops/cpu/amx_attention.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"

#if defined(PHALANX_OPS_CPU_AMX_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_AMX_ATTENTION_INL_H_
#undef PHALANX_OPS_CPU_AMX_ATTENTION_INL_H_
#else
#define PHALANX_OPS_CPU_AMX_ATTENTION_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

HWY_INLINE void copy_bf16_row(const std::byte* from, std::int64_t width, std::int64_t padded,
                              float* to) {
  auto* const row = reinterpret_cast<std::byte*>(to);
  std::memcpy(row, from, static_cast<std::size_t>(2 * width));
  if (padded > width)
    std::memset(row + 2 * width, 0, static_cast<std::size_t>(2 * (padded - width)));
}

// The rows of a strip, [32][padded]; zeros past its rows.
inline void copy_strip_rows(const QueryStrip& strip, const HeadRows& from, std::int64_t width,
                            std::int64_t padded, float* to) {
  const std::int64_t row_floats = padded / 2;
  for (int lane = 0; lane < strip.count; ++lane) {
    copy_bf16_row(strip.row(from, lane), width, padded, to + lane * row_floats);
  }
  fill(to + strip.count * row_floats, (kTileLanes - strip.count) * row_floats, 0.0F);
}

// `rows` rows of a block; zeros for padding, whatever memory holds there.
inline void copy_key_rows(const KeyBlock& block, const HeadRows& from, std::int64_t sample,
                          std::int64_t group, std::int64_t rows, std::int64_t width,
                          std::int64_t padded, float* to) {
  for (std::int64_t i = 0; i < rows; ++i, to += padded / 2) {
    if (block.document[static_cast<std::size_t>(i)] < 0) {
      fill(to, padded / 2, 0.0F);
    } else {
      copy_bf16_row(from.at(block.first + i, sample, group), width, padded, to);
    }
  }
}

inline void pair_bf16_rows(const float* rows, std::int64_t count, std::int64_t padded, float* to) {
  for (std::int64_t row = 0; row < count; row += 2) {
    const auto* first = reinterpret_cast<const bfloat16*>(rows + row * padded / 2);
    float* pairs = to + row / 2 * padded;
    for (std::int64_t i = 0; i < padded; i += lane_count()) {
      const auto low = load_bits(first + i);
      const auto high = load_bits(first + padded + i);
      store(hn::BitCast(FloatTag(), hn::Or(low, hn::ShiftLeft<16>(high))), pairs + i);
    }
  }
}

// The right operand of a product over the width, for a strip of 32 rows.
inline void turn_strip_rows(const float* rows, std::int64_t padded, float* to) {
  transpose(rows, padded / 2, kTileLanes, padded / 2, to, kTileLanes);
}

// The left operand of a product over keys: [padded][128 keys] bf16, of pairs of `count` rows.
inline void turn_pairs(const float* pairs, std::int64_t count, std::int64_t padded, float* to) {
  transpose(pairs, padded, count / 2, padded, to, kTileKeys / 2);
}

// The span in whole steps of depth; keys that were not in it are masked.
inline KeySpan in_whole_steps(KeySpan span) {
  if (span.empty()) return span;
  constexpr int kStep = 32;
  const int first = span.first / kStep * kStep;
  const int last = (span.last + kStep - 1) / kStep * kStep;
  const auto mask = [&](int from, int to) {
    if (from == to) return;
    const bool none = span.masked_first == span.masked_last;
    span.masked_first = none ? from : std::min(span.masked_first, from);
    span.masked_last = none ? to : std::max(span.masked_last, to);
  };
  mask(first, span.first);
  mask(span.last, last);
  span.first = first;
  span.last = last;
  return span;
}

// A bias and a factor that is not positive make scores of products beforehand.
inline bool makes_scores(const AttentionOperands& in) {
  return in.bias.has_value() || !(score_factor(in) > 0.0F);
}

// Turns products into scores in base 2, but for a positive factor, and masks them.
inline void prepare_scores(const AttentionOperands& in, const QueryStrip& strip,
                           const KeyBlock& block, const KeySpan& span, const ColumnScratch& columns,
                           float* scores) {
  if (makes_scores(in)) {
    const auto factor = hn::Set(FloatTag(), score_factor(in));
    const std::int64_t lanes = lanes_of(strip);
    for_pieces(span, [&](int first, int count) HWY_ATTR {
      if (in.bias) {
        load_columns(strip, block, *in.bias, first, count, kLog2E, columns.rows, columns.lanes);
      }
      for (std::int64_t key = 0; key < count; ++key) {
        float* to = scores + (first + key) * kTileLanes;
        const float* bias = columns.lanes + key * kStripRows;
        for (std::int64_t i = 0; i < lanes; i += lane_count()) {
          const auto score = load(to + i);
          store(in.bias ? hn::MulAdd(score, factor, load(bias + i)) : hn::Mul(score, factor),
                to + i);
        }
      }
    });
  }
  if (span.masked_first < span.masked_last) {
    mask_scores<kTileLanes>(in.op.mask, strip, block, span, scores);
  }
}

inline float kernel_factor(const AttentionOperands& in) {
  return makes_scores(in) ? 1.0F : score_factor(in);
}

// kept[key]: bit l says whether dropout keeps lane l.
inline void make_kept(const Dropout& dropout, const QueryStrip& strip, const KeyBlock& block,
                      const KeySpan& span, std::uint32_t* kept) {
  LaneDropout lanes(dropout, strip);
  for_keys(span, [&](std::size_t key, std::int64_t) HWY_ATTR {
    const std::uint32_t* words = lanes.words(block.position[key]);
    std::uint32_t dropped = 0;
    for (std::int64_t lane = 0; lane < lanes_of(strip); lane += lane_count()) {
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(FloatTag(), lanes.dropped(words, lane), bits);
      dropped |= (bits[0] | static_cast<std::uint32_t>(bits[1]) << 8U)
                 << static_cast<std::uint32_t>(lane);
    }
    kept[key] = ~dropped;
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
