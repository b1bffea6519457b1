// The backward of attention in AMX's tiles, from log-sum-exp and delta, as attention_backward.cc.
// Four strips are a group of 128 queries: sums over queries take a whole group at a time, so that
// sums of dkey and dvalue come to the registers once for four steps of depth.
//
// A piece is a strip and 32 keys that it sees. While the gradients of the scores of a piece are
// computed, tiles are busy with the scores of the next piece and with sums of gradients for which
// all pieces are done: dquery of the strip before, dkey and dvalue from the group before. Blocks of
// keys come in sets, so that a group's operands are loaded once for all blocks of a set, and tiles
// wait for the last gradients once a set only.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/amx_attention_backward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/amx_attention-inl.h"
#include "phalanx/ops/cpu/attention_cut.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_AMX_ATTENTION_BACKWARD_ONCE
#define PHALANX_OPS_CPU_AMX_ATTENTION_BACKWARD_ONCE
namespace phalanx::cpu {

inline constexpr std::int64_t kGroupStrips = 4;
inline constexpr std::int64_t kGroupQueries = kGroupStrips * kTileLanes;
inline constexpr std::int64_t kStepKeys = 32;
inline constexpr std::int64_t kSetBlocks = 4;
// Groups whose operands are in memory unless those of a whole head are: one that is loaded, one
// whose last piece is computed, and the one before it, of which products are left.
inline constexpr std::int64_t kGroupTurns = 3;

// The operands of 128 queries.
struct QueryGroup {
  QueryGroup(const AttentionShape& shape, FloatArena& arena) {
    const std::int64_t padded = tile_width(shape.width);
    for (std::int64_t i = 0; i < kGroupStrips; ++i) {
      query_turned[i] = arena.take(padded / 2 * kTileLanes);
      dout_turned[i] = arena.take(padded / 2 * kTileLanes);
    }
    query_pairs = arena.take(kGroupQueries / 2 * padded);
    dout_pairs = arena.take(kGroupQueries / 2 * padded);
    lse = arena.take(kGroupQueries);
    delta = arena.take(kGroupQueries);
    strips = reinterpret_cast<QueryStrip*>(
        arena.take(kGroupStrips * static_cast<std::int64_t>(sizeof(QueryStrip) / sizeof(float))));
  }

  float *query_turned[kGroupStrips], *dout_turned[kGroupStrips];
  float *query_pairs, *dout_pairs;  // [64][padded]
  float *lse, *delta;               // [128]; lse in base 2
  QueryStrip* strips;               // [4]
};

struct TileBackwardCut : BackwardCut {
  TileBackwardCut(const AttentionShape& shape, bool bias_gradient, int threads)
      : BackwardCut(shape.groups * (bias_gradient ? 1 : shape.batch), shape.strips(kGroupQueries),
                    shape.keys, group_bytes(shape), threads, kTileKeys) {}

  // Of the operands of 128 queries and of the sums of their gradients.
  static std::int64_t group_bytes(const AttentionShape& shape) {
    FloatArena arena(nullptr);
    const QueryGroup counted(shape, arena);
    return (arena.used() + sum_floats(shape)) * static_cast<std::int64_t>(sizeof(float));
  }
  static std::int64_t sum_floats(const AttentionShape& shape) {
    return tile_width(shape.width) * kGroupQueries;
  }
};

// The operands of a block of keys and the sums of their gradients.
struct BackwardBlock {
  BackwardBlock(const AttentionShape& shape, FloatArena& arena) {
    const std::int64_t padded = tile_width(shape.width);
    keys = arena.take(kTileKeys * padded / 2);
    values = arena.take(kTileKeys * padded / 2);
    keys_turned = arena.take(padded * kTileKeys / 2);
    dkeys = arena.take(kTileKeys * padded);
    dvalues = arena.take(kTileKeys * padded);
  }

  KeyBlock block;
  bool is_copied = false;
  float *keys, *values;    // [128][padded] bf16
  float* keys_turned;      // [padded][128] bf16
  float *dkeys, *dvalues;  // [128][padded]
};

struct TileBackwardScratch {
  TileBackwardScratch(const AttentionShape& shape, const TileBackwardCut& cut, float* base) {
    FloatArena arena(base);
    const std::int64_t padded = tile_width(shape.width);
    const std::int64_t blocks_of_set = std::min(kSetBlocks, shape.blocks(cut.keys.block_keys));
    for (std::int64_t i = 0; i < blocks_of_set; ++i) blocks.emplace_back(shape, arena);
    key_pairs = arena.take(kTileKeys / 2 * padded);
    query_rows = arena.take(kTileLanes * padded);
    dout_rows = arena.take(kTileLanes * padded);
    for (int i = 0; i < 2; ++i) {
      scores[i] = arena.take(kStepKeys * kTileLanes);
      dscores[i] = arena.take(kStepKeys * kTileLanes);
      probabilities[i] = arena.take(kTileKeys * kGroupQueries / 2);
      gradients[i] = arena.take(kTileKeys * kGroupQueries / 2);
      pairs[i] = arena.take(kTileKeys / 2 * kTileLanes);
    }
    kept = arena.take(kTileKeys);
    columns.take(arena);
    const std::int64_t groups = shape.strips(kGroupQueries);
    group_count = cut.whole_heads ? groups : kGroupTurns;
    FloatArena one(nullptr);
    const QueryGroup counted(shape, one);
    group_floats = one.used();
    group_memory = arena.take(group_count * group_floats);
    sums = arena.take((cut.whole_heads ? groups : std::min(groups, kMostStrips)) *
                      TileBackwardCut::sum_floats(shape));
    size = arena.used();
  }

  QueryGroup group(const AttentionShape& shape, std::int64_t i) const {
    FloatArena arena(group_memory + i * group_floats);
    return {shape, arena};
  }

  std::vector<BackwardBlock> blocks;  // of a set
  float* key_pairs;                   // [64][padded]
  float *query_rows, *dout_rows;      // [32][padded]
  // Of pieces by turns: [32][32].
  float *scores[2], *dscores[2];
  // Of groups by turns: [128][128] bf16.
  float *probabilities[2], *gradients[2];
  // Gradients of strips by turns: [64][32] pairs of bf16.
  float* pairs[2];
  float* kept;  // [128] of 32 bits
  ColumnScratch columns;
  std::int64_t group_count, group_floats;
  float* group_memory;
  float* sums;  // of dquery, [strips of a task][padded][32 columns], as the pairs have them
  std::int64_t size;
};

struct TileBackwardProblem {
  TileBackwardProblem(const CpuDevice& device, const ops::AttentionBackward& gradients,
                      const AttentionKernel& with)
      : op(gradients),
        in(gradients.in, device.products),
        kernel(with),
        cut(in.shape, gradients.dbias.defined(), device.threads),
        threads(device.threads),
        dquery(HeadRows::of_heads(gradients.dquery)),
        dkey(HeadRows::of_heads(gradients.dkey)),
        dvalue(HeadRows::of_heads(gradients.dvalue)),
        dout(HeadRows::of_heads(gradients.dout)) {
    if (op.dbias) dbias = HeadRows::of_bias(op.dbias);
  }

  const ops::AttentionBackward& op;
  AttentionOperands in;
  const AttentionKernel& kernel;
  TileBackwardCut cut;
  int threads;
  HeadRows dquery, dkey, dvalue, dout;
  std::optional<HeadRows> dbias;
};

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

// One walk over groups of queries and blocks of keys, and which results it computes.
struct TileBackwardPass {
  AttentionPass cut;
  std::int64_t first_sample = 0;
  bool keys = false;     // dkey, dvalue and dbias
  bool queries = false;  // dquery
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

inline const std::byte* bytes_at(const float* from) {
  return reinterpret_cast<const std::byte*>(from);
}

class TileBackwardTask {
 public:
  TileBackwardTask(const TileBackwardProblem& problem, const TileBackwardPass& pass,
                   std::int64_t index, float* base)
      : problem_(problem),
        pass_(pass),
        in_(problem.in),
        shape_(problem.in.shape),
        kernel_(problem.kernel),
        padded_(tile_width(shape_.width)),
        width_tiles_(ceil_div(shape_.width, 16)),
        index_(index),
        task_(pass.cut.task(index)),
        sample_(pass.first_sample + task_.head / shape_.groups),
        group_(task_.head % shape_.groups),
        scratch_(shape_, problem.cut, base) {}

  void run() {
    kernel_.prepare();
    const std::int64_t groups = shape_.strips(kGroupQueries);
    if (keeps_groups()) {
      for (std::int64_t i = 0; i < groups; ++i) load_group(i, i);
    }
    if (pass_.queries) {
      std::int64_t count = 0;
      task_.strips.for_each(groups, [&](std::int64_t, std::int64_t) { ++count; });
      fill(scratch_.sums, count * sum_floats(), 0.0F);
    }
    const std::vector<std::int64_t> blocks = first_keys(task_);
    for (std::size_t first = 0; first < blocks.size(); first += kSetBlocks) {
      const std::span<const std::int64_t> left(blocks.begin() + first, blocks.end());
      fetch_after(left);
      add_set(left.first(std::min(left.size(), std::size_t{kSetBlocks})));
    }
    if (pass_.queries) {
      float* sums = scratch_.sums;
      task_.strips.for_each(groups, [&](std::int64_t i, std::int64_t) HWY_ATTR {
        store_dqueries(i, sums);
        sums += sum_floats();
      });
    }
    kernel_.release();
  }

 private:
  bool keeps_groups() const { return problem_.cut.whole_heads; }
  std::int64_t sum_floats() const { return TileBackwardCut::sum_floats(shape_); }

  // The first key of each block of a task.
  std::vector<std::int64_t> first_keys(const AttentionTask& task) const {
    const std::int64_t size = pass_.cut.block_keys;
    std::vector<std::int64_t> keys;
    task.blocks.for_each(shape_.blocks(size),
                         [&](std::int64_t b, std::int64_t) { keys.push_back(b * size); });
    return keys;
  }

  // Fetches what follows the first set of these blocks: the next set, or the start of this
  // thread's likely next task.
  void fetch_after(std::span<const std::int64_t> blocks) {
    const auto fetch_set = [&](std::span<const std::int64_t> set, const HeadRows& rows,
                               std::int64_t sample, std::int64_t group) {
      for (const std::int64_t key : set.first(std::min(set.size(), std::size_t{kSetBlocks}))) {
        ahead_.add_keys(rows, shape_, sample, group, key, pass_.cut.block_keys);
      }
    };
    const auto following = blocks.subspan(std::min(blocks.size(), std::size_t{kSetBlocks}));
    if (!following.empty()) {
      fetch_set(following, in_.key, sample_, group_);
      fetch_set(following, in_.value, sample_, group_);
    } else if (index_ + problem_.threads < pass_.cut.tasks()) {
      const AttentionTask task = pass_.cut.task(index_ + problem_.threads);
      const std::int64_t sample = pass_.first_sample + task.head / shape_.groups;
      const std::int64_t group = task.head % shape_.groups;
      for (std::int64_t i = 0; i < shape_.strips(kGroupQueries) && keeps_groups(); ++i) {
        ahead_.add_strip(in_.query, shape_, sample, group, i, kGroupQueries);
        ahead_.add_strip(problem_.dout, shape_, sample, group, i, kGroupQueries);
      }
      const std::vector<std::int64_t> keys = first_keys(task);
      fetch_set(keys, in_.key, sample, group);
      fetch_set(keys, in_.value, sample, group);
    }
    if (pass_.keys) {
      fetch_set(blocks, problem_.dkey, sample_, group_);
      fetch_set(blocks, problem_.dvalue, sample_, group_);
    }
  }

  // Loads the operands of queries [128 i, 128 (i + 1)) into one of the scratch's groups.
  QueryGroup load_group(std::int64_t i, std::int64_t place) {
    const QueryGroup group = scratch_.group(shape_, place);
    for (std::int64_t s = 0; s < kGroupStrips; ++s) {
      QueryStrip& strip = group.strips[s];
      const std::int64_t index = i * kGroupStrips + s;
      if (index >= shape_.strips(kTileLanes)) {
        strip.count = 0;
      } else {
        strip = load_query_strip(in_.op, shape_, sample_, group_, index, kTileLanes);
      }
      load_rows(strip, in_.query, scratch_.query_rows, group.query_turned[s],
                group.query_pairs + s * kTileLanes / 2 * padded_);
      load_rows(strip, problem_.dout, scratch_.dout_rows, group.dout_turned[s],
                group.dout_pairs + s * kTileLanes / 2 * padded_);
      load_statistics(strip, group.lse + s * kTileLanes, group.delta + s * kTileLanes);
    }
    return group;
  }

  void load_rows(const QueryStrip& strip, const HeadRows& from, float* rows, float* turned,
                 float* pairs) const {
    copy_strip_rows(strip, from, shape_.width, padded_, rows);
    turn_strip_rows(rows, padded_, turned);
    pair_bf16_rows(rows, kTileLanes, padded_, pairs);
  }

  void load_statistics(const QueryStrip& strip, float* lse, float* delta) {
    fill(lse, kTileLanes, 0.0F);
    fill(delta, kTileLanes, 0.0F);
    for (int lane = 0; lane < strip.count; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      delta[lane] = row_statistic(problem_.op.delta, sample_, strip.head[i], strip.query[i]);
      const float x = row_statistic(problem_.op.lse, sample_, strip.head[i], strip.query[i]);
      // A row that sees no key: its probabilities are 0 whatever is subtracted.
      lse[lane] = x == -kInfinity ? 0.0F : x * kLog2E;
    }
  }

  // Adds what blocks of keys and all groups of queries give each other.
  void add_set(std::span<const std::int64_t> first_keys) {
    const std::int64_t size = pass_.cut.block_keys;
    const std::span blocks(scratch_.blocks.data(), first_keys.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      start_block(blocks[i], load_key_block(in_.op, shape_, sample_, first_keys[i], size));
    }
    float* sums = scratch_.sums;
    task_.strips.for_each(shape_.strips(kGroupQueries), [&](std::int64_t i, std::int64_t) HWY_ATTR {
      const QueryGroup group =
          keeps_groups() ? scratch_.group(shape_, i) : load_group(i, used_groups_ % kGroupTurns);
      const std::int64_t before = pieces_;
      for (BackwardBlock& block : blocks) add_group(group, block, sums);
      if (pieces_ > before) ++used_groups_;
      sums += sum_floats();
    });
    finish_pieces();
    if (!pass_.keys) return;
    for (const BackwardBlock& block : blocks) store_key_gradients(block);
  }

  void start_block(BackwardBlock& to, const KeyBlock& block) const {
    to.block = block;
    to.is_copied = false;
    if (!pass_.keys) return;
    const std::int64_t rows = round_up(block.count, kStepKeys);
    fill(to.dkeys, rows * padded_, 0.0F);
    fill(to.dvalues, rows * padded_, 0.0F);
  }

  void copy_block(BackwardBlock& to) const {
    to.is_copied = true;
    const std::int64_t rows = round_up(to.block.count, kStepKeys);
    copy_key_rows(to.block, in_.key, sample_, group_, rows, shape_.width, padded_, to.keys);
    copy_key_rows(to.block, in_.value, sample_, group_, rows, shape_.width, padded_, to.values);
    if (!pass_.queries) return;
    pair_bf16_rows(to.keys, rows, padded_, scratch_.key_pairs);
    turn_pairs(scratch_.key_pairs, rows, padded_, to.keys_turned);
  }

  using Spans = std::array<KeySpan, kGroupStrips>;

  // A strip and 32 keys that it sees.
  struct Piece {
    QueryGroup group;
    std::int64_t strip = 0;  // of the group
    const BackwardBlock* block = nullptr;
    Spans spans;        // of all strips of the group
    KeySpan keys = {};  // the 32
    float *scores = nullptr, *dscores = nullptr;
    float *probabilities = nullptr, *gradients = nullptr, *pairs = nullptr;
    float* sums = nullptr;  // of the strip's dquery
    // Pieces of the strip and of the group from this one on.
    std::int64_t left_of_strip = 0, left_of_group = 0;

    const KeySpan& span() const { return spans[static_cast<std::size_t>(strip)]; }
  };

  // 32 keys at a time: what passes between the products stays in the first-level cache.
  void add_group(const QueryGroup& group, BackwardBlock& block, float* sums) {
    Spans spans;
    bool sees = false;
    for (std::size_t s = 0; s < kGroupStrips; ++s) {
      const QueryStrip& strip = group.strips[s];
      if (strip.count == 0) continue;
      spans[s] = in_whole_steps(visible_span(in_.op.mask, strip.range, block.block));
      sees = sees || !spans[s].empty();
    }
    if (!sees) return;
    if (!block.is_copied) copy_block(block);
    Piece piece{.group = group, .block = &block, .spans = spans};
    const auto group_turn = static_cast<std::size_t>(seen_groups_++ % 2);
    piece.probabilities = scratch_.probabilities[group_turn];
    piece.gradients = scratch_.gradients[group_turn];
    for (const KeySpan& span : spans) piece.left_of_group += span.count() / kStepKeys;
    for (std::int64_t s = 0; s < kGroupStrips; ++s) {
      piece.strip = s;
      const KeySpan& span = piece.span();
      if (span.empty()) continue;
      piece.sums = sums + s * kTileLanes * padded_;
      piece.pairs = scratch_.pairs[static_cast<std::size_t>(seen_strips_++ % 2)];
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

  void add_piece(Piece piece) {
    const auto turn = static_cast<std::size_t>(pieces_++ % 2);
    piece.scores = scratch_.scores[turn];
    piece.dscores = scratch_.dscores[turn];
    beside_.clear();
    add_scores(piece);
    if (last_) {
      add_gradients_of_last();
    } else {
      multiply_all();
    }
    last_.emplace(piece);
  }

  void finish_pieces() {
    if (!last_) return;
    beside_.clear();
    add_gradients_of_last();
    last_.reset();
    beside_.clear();
    query_products_.take(1, beside_);
    key_products_.take(1, beside_);
    multiply_all();
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
                        .left = bytes_at(piece.block->keys + piece.keys.first * padded_ / 2),
                        .left_stride = 2 * padded_,
                        .right = bytes_at(piece.group.query_turned[strip]),
                        .right_stride = kTileLanes * 4,
                        .sums = piece.scores,
                        .sums_stride = kTileLanes * 4};
    beside_.push_back(product);
    product.left = bytes_at(piece.block->values + piece.keys.first * padded_ / 2);
    product.right = bytes_at(piece.group.dout_turned[strip]);
    product.sums = piece.dscores;
    beside_.push_back(product);
  }

  // Probabilities and gradients of the scores of the last piece, beside its share of the products
  // that wait.
  void add_gradients_of_last() {
    const Piece& piece = *last_;
    query_products_.take(piece.left_of_strip, beside_);
    key_products_.take(piece.left_of_group, beside_);
    const QueryStrip& strip = piece.group.strips[piece.strip];
    const KeySpan& keys = piece.keys;
    // Where key 0 of the block would be: within scratch, for keys and values come before scores.
    const std::int64_t before = keys.first * kTileLanes;
    prepare_scores(in_, strip, piece.block->block, keys, scratch_.columns, piece.scores - before);
    auto* const kept = reinterpret_cast<std::uint32_t*>(scratch_.kept);
    if (in_.drops()) make_kept(in_.op.dropout, strip, piece.block->block, keys, kept);
    const bool bias = pass_.keys && problem_.dbias;
    const std::int64_t row = keys.first * kGroupQueries / 2 + piece.strip * kTileLanes / 2;
    float* const pairs = piece.pairs + (keys.first - piece.span().first) / 2 * kTileLanes;
    kernel_.gradients({.keys = kStepKeys,
                       .scores = piece.scores,
                       .dvalues = piece.dscores,
                       .factor = kernel_factor(in_),
                       .kept = in_.drops() ? kept + keys.first : nullptr,
                       .kept_factor = in_.kept_factor,
                       .lse = piece.group.lse + piece.strip * kTileLanes,
                       .delta = piece.group.delta + piece.strip * kTileLanes,
                       .probabilities = reinterpret_cast<std::byte*>(piece.probabilities + row),
                       .gradients = reinterpret_cast<std::byte*>(piece.gradients + row),
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
                         .left = bytes_at(piece.block->keys_turned) + 2 * piece.span().first,
                         .left_stride = 2 * kTileKeys,
                         .right = bytes_at(piece.pairs),
                         .right_stride = kTileLanes * 4,
                         .sums = piece.sums,
                         .sums_stride = kTileLanes * 4,
                         .add = true});
  }

  // dvalue and dkey of 32 keys += the products with the strips that see them.
  void add_keys(const Piece& piece, int key) {
    const auto sees = [&](std::int64_t s) {
      const KeySpan& span = piece.spans[static_cast<std::size_t>(s)];
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
                        .left = bytes_at(piece.probabilities + row),
                        .left_stride = kGroupQueries * 2,
                        .right = bytes_at(piece.group.dout_pairs + pairs),
                        .right_stride = padded_ * 4,
                        .sums = piece.block->dvalues + key * padded_,
                        .sums_stride = padded_ * 4,
                        .add = true};
    key_products_.add(product);
    product.left = bytes_at(piece.gradients + row);
    product.right = bytes_at(piece.group.query_pairs + pairs);
    product.sums = piece.block->dkeys + key * padded_;
    key_products_.add(product);
  }

  // A strip that does not see 32 keys between others that do.
  static void clear(const Piece& piece, int key, std::int64_t s) {
    for (int i = 0; i < kStepKeys; ++i) {
      const std::int64_t row = (key + i) * kGroupQueries / 2 + s * kTileLanes / 2;
      fill(piece.probabilities + row, kTileLanes / 2, 0.0F);
      fill(piece.gradients + row, kTileLanes / 2, 0.0F);
    }
  }

  // dbias[head, query, key] += the gradients of 32 keys.
  void add_bias_gradient(const Piece& piece) {
    const QueryStrip& strip = piece.group.strips[piece.strip];
    const float* rows = scratch_.columns.rows;
    transpose(piece.dscores, kTileLanes, kStepKeys, lanes_of(strip), scratch_.columns.rows,
              kColumnPiece);
    const std::int64_t first = piece.keys.first;
    const KeyBlock& block = piece.block->block;
    const std::int64_t width = std::min<std::int64_t>(kStepKeys, block.count - first);
    for (int lane = 0; lane < strip.count; ++lane) {
      auto* to = reinterpret_cast<float*>(strip.row(*problem_.dbias, lane)) + block.first + first;
      for_vectors(0, width, [&](std::int64_t i, auto part) HWY_ATTR {
        part.store(hn::Add(part.load(to + i), part.load(rows + lane * kColumnPiece + i)), to + i);
      });
    }
  }

  void store_dqueries(std::int64_t i, const float* sums) {
    alignas(64) float factor[kTileLanes];
    fill(factor, kTileLanes, static_cast<float>(in_.op.scale));
    for (std::int64_t s = 0; s < kGroupStrips; ++s) {
      const std::int64_t index = i * kGroupStrips + s;
      if (index >= shape_.strips(kTileLanes)) return;
      const QueryStrip strip = load_query_strip(in_.op, shape_, sample_, group_, index, kTileLanes);
      store_strip_lanes<kTileLanes>(sums + s * kTileLanes * padded_, factor, strip, problem_.dquery,
                                    shape_.width, scratch_.query_rows, 16 * width_tiles_,
                                    problem_.op.adds_to_dquery, pair_column);
    }
  }

  // Multiplies the sums by the factors that the products left out.
  void store_key_gradients(const BackwardBlock& of) {
    const KeyBlock& block = of.block;
    for (std::int64_t key = 0; key < block.count; ++key) {
      const auto store_sums = [&](const float* sums, float factor, const HeadRows& to) HWY_ATTR {
        store_row(sums + key * padded_, shape_.width, factor, to.dtype(),
                  to.at(block.first + key, sample_, group_));
      };
      store_sums(of.dkeys, static_cast<float>(in_.op.scale), problem_.dkey);
      store_sums(of.dvalues, in_.kept_factor, problem_.dvalue);
    }
  }

  static constexpr int kFetches = 4;  // steps of prefetching after a strip

  const TileBackwardProblem& problem_;
  const TileBackwardPass& pass_;
  const AttentionOperands& in_;
  const AttentionShape& shape_;
  const AttentionKernel& kernel_;
  std::int64_t padded_, width_tiles_;
  std::int64_t index_;
  AttentionTask task_;
  std::int64_t sample_, group_;
  TileBackwardScratch scratch_;
  RowPrefetch ahead_;
  std::int64_t pieces_ = 0, seen_strips_ = 0, seen_groups_ = 0, used_groups_ = 0;
  std::optional<Piece> last_;  // its gradients are not computed yet
  WaitingProducts query_products_, key_products_;
  std::vector<TileProduct> beside_;
};

void tile_backward_task(const TileBackwardProblem& problem, const TileBackwardPass& pass,
                        std::int64_t index, float* base) {
  TileBackwardTask(problem, pass, index, base).run();
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(tile_backward_task);

void run_pass(const CpuDevice& device, const TileBackwardProblem& problem,
              const TileBackwardPass& pass, std::byte* workspace) {
  const std::int64_t floats = TileBackwardScratch(problem.in.shape, problem.cut, nullptr).size;
  auto* base = reinterpret_cast<float*>(workspace);
  const auto run = HWY_DYNAMIC_DISPATCH(tile_backward_task);
  for_each_task(device.threads, pass.cut.tasks(), [&](std::int64_t task, std::int64_t slot) {
    run(problem, pass, task, base + slot * floats);
  });
}
}  // namespace

std::int64_t amx_workspace_bytes(const CpuDevice& device, const ops::AttentionBackward& op) {
  const AttentionShape shape(op.in);
  const TileBackwardCut cut(shape, op.dbias.defined(), device.threads);
  return device.threads * TileBackwardScratch(shape, cut, nullptr).size *
         static_cast<std::int64_t>(sizeof(float));
}

void amx_attention(const CpuDevice& device, const ops::AttentionBackward& op,
                   const AttentionKernel& kernel, std::byte* workspace) {
  const TileBackwardProblem problem(device, op, kernel);
  expect_statistic("delta", op.delta);
  expect_statistic("lse", op.lse);
  if (op.dbias) expect_statistic("dbias", op.dbias);
  const std::int64_t samples_at_once = problem.cut.keys.heads / problem.in.shape.groups;
  for (std::int64_t sample = 0; sample < problem.in.shape.batch; sample += samples_at_once) {
    TileBackwardPass keys{.cut = problem.cut.keys, .first_sample = sample, .keys = true};
    keys.queries = problem.cut.whole_heads;
    run_pass(device, problem, keys, workspace);
    if (problem.cut.whole_heads) continue;
    run_pass(device, problem, {.cut = problem.cut.queries, .first_sample = sample, .queries = true},
             workspace);
  }
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
