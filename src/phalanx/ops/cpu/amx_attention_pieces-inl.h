// The pipeline of attention's backward in AMX's tiles: pieces, a strip and 32 keys that it sees.
// While the gradients of the scores of a piece are computed, tiles are busy with the scores of the
// next piece and with sums of gradients for which all pieces are done: dquery of the strip before,
// dkey and dvalue from the group before. Included once per target.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "phalanx/ops/cpu/amx_attention-inl.h"
#include "phalanx/ops/cpu/amx_attention_backward.h"

#if defined(PHALANX_OPS_CPU_AMX_ATTENTION_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_AMX_ATTENTION_PIECES_INL_H_
#undef PHALANX_OPS_CPU_AMX_ATTENTION_PIECES_INL_H_
#else
#define PHALANX_OPS_CPU_AMX_ATTENTION_PIECES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

inline const std::byte* bytes_at(const float* from) {
  return reinterpret_cast<const std::byte*>(from);
}

// Products that wait for time of the tiles, cut into such of at most 2 x 2 registers of sums.
class WaitingProducts {
 public:
  void add(const TileProduct& product) {
    for (std::int64_t column = 0; column < product.column_tiles; column += 2) {
      for (std::int64_t row = 0; row < product.row_tiles; row += 2) {
        TileProduct part = product;
        part.row_tiles = std::min<std::int64_t>(2, product.row_tiles - row);
        part.column_tiles = std::min<std::int64_t>(2, product.column_tiles - column);
        part.left += 16 * row * product.left_stride;
        part.right += 64 * column;
        part.sums += 16 * row * product.sums_stride / 4 + 16 * column;
        products_.push_back(part);
      }
    }
  }
  // Moves a share, so that none is left after `calls` calls.
  void take(std::int64_t calls, std::vector<TileProduct>& to) {
    const auto left = static_cast<std::int64_t>(products_.size() - first_);
    for (std::int64_t i = ceil_div(left, calls); i > 0; --i) to.push_back(products_[first_++]);
    if (first_ < products_.size()) return;
    products_.clear();
    first_ = 0;
  }

 private:
  std::vector<TileProduct> products_;
  std::size_t first_ = 0;
};

// A group of queries and a block of keys that some of its strips see.
struct GroupOfBlock {
  QueryGroup group;
  const BackwardBlock* block = nullptr;
  std::array<KeySpan, kGroupStrips> spans;  // of the strips
  float* sums = nullptr;                    // of the group's dquery

  bool sees() const {
    return std::any_of(spans.begin(), spans.end(), [](const KeySpan& s) { return !s.empty(); });
  }
};

class GradientPieces {
 public:
  GradientPieces(const TileBackwardProblem& problem, const TileBackwardPass& pass,
                 const TileBackwardScratch& scratch, RowPrefetch& ahead)
      : problem_(problem),
        pass_(pass),
        in_(problem.in),
        kernel_(problem.kernel),
        scratch_(scratch),
        ahead_(ahead),
        padded_(tile_width(problem.in.shape.width)),
        width_tiles_(ceil_div(problem.in.shape.width, 16)) {}

  // 32 keys at a time: what passes between the products stays in the first-level cache. The
  // operands of the group and of the block are in use until finish(), or until two more groups were
  // added.
  void add(const GroupOfBlock& added) {
    const auto turn = static_cast<std::size_t>(group_count_++ % 2);
    Group& group = groups_[turn];
    group = {added, scratch_.probabilities[turn], scratch_.gradients[turn]};
    Piece piece{.of = &group};
    for (const KeySpan& span : group.spans) piece.left_of_group += span.count() / kStepKeys;
    for (piece.strip = 0; piece.strip < kGroupStrips; ++piece.strip) {
      const KeySpan& span = piece.span();
      if (span.empty()) continue;
      piece.pairs = scratch_.pairs[static_cast<std::size_t>(strip_count_++ % 2)];
      piece.left_of_strip = span.count() / kStepKeys;
      for (int first = span.first; first < span.last; first += kStepKeys) {
        const int last = first + kStepKeys;
        piece.keys = {.first = first,
                      .last = last,
                      .masked_first = std::clamp(span.masked_first, first, last),
                      .masked_last = std::clamp(span.masked_last, first, last)};
        add_piece(piece);
        --piece.left_of_strip;
        --piece.left_of_group;
      }
      for (int step = 0; step < kFetches; ++step) ahead_.step();
    }
  }

  void finish() {
    if (!last_) return;
    beside_.clear();
    add_gradients_of_last();
    last_.reset();
    beside_.clear();
    query_products_.take(1, beside_);
    key_products_.take(1, beside_);
    multiply_all();
  }

 private:
  struct Group : GroupOfBlock {
    float *probabilities = nullptr, *gradients = nullptr;  // [128][128] bf16
  };

  // A strip and 32 keys that it sees.
  struct Piece {
    const Group* of = nullptr;
    std::int64_t strip = 0;
    KeySpan keys = {};  // the 32
    float *scores = nullptr, *dscores = nullptr, *pairs = nullptr;
    // Pieces of the strip and of the group from this one on.
    std::int64_t left_of_strip = 0, left_of_group = 0;

    const KeySpan& span() const { return of->spans[static_cast<std::size_t>(strip)]; }
  };

  void add_piece(Piece& piece) {
    const auto turn = static_cast<std::size_t>(piece_count_++ % 2);
    piece.scores = scratch_.scores[turn];
    piece.dscores = scratch_.dscores[turn];
    beside_.clear();
    add_scores(piece);
    if (last_) {
      add_gradients_of_last();
    } else {
      multiply_all();
    }
    last_ = piece;
  }

  void multiply_all() const {
    for (const TileProduct& product : beside_) kernel_.multiply(product);
  }

  // The products that give scores and what dout and values give.
  void add_scores(const Piece& piece) {
    const auto strip = static_cast<std::size_t>(piece.strip);
    TileProduct product{.row_tiles = kStepKeys / 16,
                        .column_tiles = kTileLanes / 16,
                        .steps = padded_ / 32,
                        .left = bytes_at(piece.of->block->keys + piece.keys.first * padded_ / 2),
                        .left_stride = 2 * padded_,
                        .right = bytes_at(piece.of->group.query_turned[strip]),
                        .right_stride = kTileLanes * 4,
                        .sums = piece.scores,
                        .sums_stride = kTileLanes * 4};
    beside_.push_back(product);
    product.left = bytes_at(piece.of->block->values + piece.keys.first * padded_ / 2);
    product.right = bytes_at(piece.of->group.dout_turned[strip]);
    product.sums = piece.dscores;
    beside_.push_back(product);
  }

  // Probabilities and gradients of the scores of the last piece, beside its share of the products
  // that wait.
  void add_gradients_of_last() {
    const Piece& piece = *last_;
    query_products_.take(piece.left_of_strip, beside_);
    key_products_.take(piece.left_of_group, beside_);
    const QueryStrip& strip = piece.of->group.strips[piece.strip];
    const KeySpan& keys = piece.keys;
    // Where key 0 of the block would be: within scratch, for keys and values come before scores.
    const std::int64_t before = keys.first * kTileLanes;
    prepare_scores(in_, strip, piece.of->block->block, keys, scratch_.columns,
                   piece.scores - before);
    auto* const kept = reinterpret_cast<std::uint32_t*>(scratch_.kept);
    if (in_.drops()) make_kept(in_.op.dropout, strip, piece.of->block->block, keys, kept);
    const bool bias = pass_.keys && problem_.dbias;
    const std::int64_t row = keys.first * kGroupQueries / 2 + piece.strip * kTileLanes / 2;
    float* const pairs = piece.pairs + (keys.first - piece.span().first) / 2 * kTileLanes;
    kernel_.gradients({.keys = kStepKeys,
                       .scores = piece.scores,
                       .dvalues = piece.dscores,
                       .factor = kernel_factor(in_),
                       .kept = in_.drops() ? kept + keys.first : nullptr,
                       .kept_factor = in_.kept_factor,
                       .lse = piece.of->group.lse + piece.strip * kTileLanes,
                       .delta = piece.of->group.delta + piece.strip * kTileLanes,
                       .probabilities = reinterpret_cast<std::byte*>(piece.of->probabilities + row),
                       .gradients = reinterpret_cast<std::byte*>(piece.of->gradients + row),
                       .stride = kGroupQueries * 2,
                       .pairs = reinterpret_cast<std::byte*>(pairs),
                       .exact_gradients = bias ? piece.dscores : nullptr},
                      beside_);
    if (bias) add_bias_gradient(piece);
    if (piece.left_of_strip == 1 && pass_.queries) add_dquery(piece);
    if (piece.left_of_group > 1 || !pass_.keys) return;
    for (int key = 0; key < pass_.cut.block_keys; key += kStepKeys) add_keys(piece, key);
  }

  void add_dquery(const Piece& piece) {
    query_products_.add({.row_tiles = width_tiles_,
                         .column_tiles = kTileLanes / 16,
                         .steps = piece.span().count() / kStepKeys,
                         .left = bytes_at(piece.of->block->keys_turned) + 2 * piece.span().first,
                         .left_stride = 2 * kTileKeys,
                         .right = bytes_at(piece.pairs),
                         .right_stride = kTileLanes * 4,
                         .sums = piece.of->sums + piece.strip * kTileLanes * padded_,
                         .sums_stride = kTileLanes * 4,
                         .add = true});
  }

  // dvalue and dkey of 32 keys += the products with the strips that see them.
  void add_keys(const Piece& piece, int key) {
    const auto sees = [&](std::int64_t s) {
      const KeySpan& span = piece.of->spans[static_cast<std::size_t>(s)];
      return span.first <= key && key < span.last;
    };
    std::int64_t first = 0, last = kGroupStrips;
    while (first < kGroupStrips && !sees(first)) ++first;
    if (first == kGroupStrips) return;
    while (!sees(last - 1)) --last;
    for (std::int64_t s = first; s < last; ++s) {
      if (!sees(s)) clear(piece, key, s);
    }
    const std::int64_t row = key * kGroupQueries / 2 + first * kTileLanes / 2;
    const std::int64_t pairs = first * kTileLanes / 2 * padded_;
    TileProduct product{.row_tiles = kStepKeys / 16,
                        .column_tiles = width_tiles_,
                        .steps = last - first,
                        .left = bytes_at(piece.of->probabilities + row),
                        .left_stride = kGroupQueries * 2,
                        .right = bytes_at(piece.of->group.dout_pairs + pairs),
                        .right_stride = padded_ * 4,
                        .sums = piece.of->block->dvalues + key * padded_,
                        .sums_stride = padded_ * 4,
                        .add = true};
    key_products_.add(product);
    product.left = bytes_at(piece.of->gradients + row);
    product.right = bytes_at(piece.of->group.query_pairs + pairs);
    product.sums = piece.of->block->dkeys + key * padded_;
    key_products_.add(product);
  }

  // A strip that does not see 32 keys between others that do.
  static void clear(const Piece& piece, int key, std::int64_t s) {
    for (int i = 0; i < kStepKeys; ++i) {
      const std::int64_t row = (key + i) * kGroupQueries / 2 + s * kTileLanes / 2;
      fill(piece.of->probabilities + row, kTileLanes / 2, 0.0F);
      fill(piece.of->gradients + row, kTileLanes / 2, 0.0F);
    }
  }

  // dbias[head, query, key] += the gradients of 32 keys.
  void add_bias_gradient(const Piece& piece) {
    const QueryStrip& strip = piece.of->group.strips[piece.strip];
    const float* rows = scratch_.columns.rows;
    transpose(piece.dscores, kTileLanes, kStepKeys, lanes_of(strip), scratch_.columns.rows,
              kColumnPiece);
    const std::int64_t first = piece.keys.first;
    const KeyBlock& block = piece.of->block->block;
    const std::int64_t width = std::min<std::int64_t>(kStepKeys, block.count - first);
    for (int lane = 0; lane < strip.count; ++lane) {
      auto* to = reinterpret_cast<float*>(strip.row(*problem_.dbias, lane)) + block.first + first;
      for_vectors(0, width, [&](std::int64_t i, auto part) HWY_ATTR {
        part.store(hn::Add(part.load(to + i), part.load(rows + lane * kColumnPiece + i)), to + i);
      });
    }
  }

  static constexpr int kFetches = 4;  // steps of prefetching after a strip

  const TileBackwardProblem& problem_;
  const TileBackwardPass& pass_;
  const AttentionOperands& in_;
  const AttentionKernel& kernel_;
  const TileBackwardScratch& scratch_;
  RowPrefetch& ahead_;
  std::int64_t padded_, width_tiles_;
  std::array<Group, 2> groups_;
  std::optional<Piece> last_;  // its gradients are not computed yet
  std::int64_t piece_count_ = 0, strip_count_ = 0, group_count_ = 0;
  WaitingProducts query_products_, key_products_;
  std::vector<TileProduct> beside_;
};

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
