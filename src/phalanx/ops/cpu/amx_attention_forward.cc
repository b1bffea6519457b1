// The forward of attention in AMX's tiles: an online softmax over blocks of keys, as
// attention_forward.cc.
//
// A piece is a strip and what it sees of a block. While the softmax of a piece is computed, tiles
// are busy with the scores of the next piece and with the values of the one before.

#include <algorithm>
#include <array>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/amx_attention_forward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/amx_attention-inl.h"
#include "phalanx/ops/cpu/attention_cut.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_AMX_ATTENTION_FORWARD_ONCE
#define PHALANX_OPS_CPU_AMX_ATTENTION_FORWARD_ONCE
namespace phalanx::cpu {

inline constexpr std::int64_t kMostTileStrips = 32;

// A strip of a task and its results so far.
struct TileStrip {
  QueryStrip rows;
  float* query;  // turned
  float* out;    // [padded width][32]
  SoftmaxState softmax;
  bool has_sums = false;  // whether `out` holds any
};

// The operands of a block of keys. Two of them take turns, so that pieces of one are still computed
// when the next is copied.
struct TileBlock {
  KeyBlock block;
  float* keys;    // [128][padded] bf16
  float* values;  // turned: [padded][128] bf16
};

struct TileForwardScratch {
  TileForwardScratch(const AttentionShape& shape, float* base) {
    FloatArena arena(base);
    const std::int64_t padded = tile_width(shape.width);
    for (TileBlock& block : blocks) {
      block.keys = arena.take(kTileKeys * padded / 2);
      block.values = arena.take(padded * kTileKeys / 2);
    }
    value_rows = arena.take(kTileKeys * padded / 2);
    value_pairs = arena.take(kTileKeys / 2 * padded);
    rows = arena.take(kTileLanes * padded);
    for (int i = 0; i < 2; ++i) {
      scores[i] = arena.take(kTileKeys * kTileLanes);
      pairs[i] = arena.take(kTileKeys / 2 * kTileLanes);
    }
    shrink = arena.take(kTileLanes);
    kept = arena.take(kTileKeys);
    columns.take(arena);
    for (std::int64_t i = 0; i < std::min(kMostTileStrips, shape.strips(kTileLanes)); ++i) {
      TileStrip& strip = strips[static_cast<std::size_t>(i)];
      strip.query = arena.take(padded / 2 * kTileLanes);
      strip.out = arena.take(padded * kTileLanes);
      strip.softmax.take(arena);
    }
    size = arena.used();
  }

  std::array<TileBlock, 2> blocks;
  float *value_rows, *value_pairs;  // bf16 rows, and their pairs
  float* rows;                      // [32][padded]
  float* scores[2];                 // of pieces by turns: [128][32]
  float* pairs[2];                  // probabilities, [64][32] pairs of bf16
  float* shrink;                    // [32]
  float* kept;                      // [128] of 32 bits
  ColumnScratch columns;
  std::array<TileStrip, kMostTileStrips> strips;
  std::int64_t size;
};

struct TileForwardProblem {
  TileForwardProblem(const CpuDevice& device, const ops::AttentionForward& op,
                     const AttentionKernel& with)
      : in(op.in, device.products),
        out(HeadRows::of_heads(op.out)),
        lse(op.lse),
        kernel(with),
        pass(strip_pass(in.shape.batch * in.shape.groups, in.shape.strips(kTileLanes),
                        device.threads, kMostTileStrips)),
        threads(device.threads) {}

  AttentionOperands in;
  HeadRows out;
  Tensor lse;
  const AttentionKernel& kernel;
  AttentionPass pass;
  int threads;
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

class TileForwardTask {
 public:
  TileForwardTask(const TileForwardProblem& problem, std::int64_t index, float* base)
      : problem_(problem),
        in_(problem.in),
        shape_(problem.in.shape),
        kernel_(problem.kernel),
        padded_(tile_width(shape_.width)),
        width_tiles_(ceil_div(shape_.width, 16)),
        index_(index),
        task_(problem.pass.task(index)),
        sample_(task_.head / shape_.groups),
        group_(task_.head % shape_.groups),
        scratch_(shape_, base) {}

  void run() {
    kernel_.prepare();
    task_.strips.for_each(shape_.strips(kTileLanes), [&](std::int64_t i, std::int64_t) HWY_ATTR {
      start(scratch_.strips[count_++], i);
    });
    for (std::int64_t b = 0; b < shape_.blocks(kTileKeys); ++b) add_block(b);
    finish_pieces();
    for (std::size_t i = 0; i < count_; ++i) finish(scratch_.strips[i]);
    kernel_.release();
  }

 private:
  void start(TileStrip& strip, std::int64_t i) {
    strip.rows = load_query_strip(in_.op, shape_, sample_, group_, i, kTileLanes);
    copy_strip_rows(strip.rows, in_.query, shape_.width, padded_, scratch_.rows);
    turn_strip_rows(scratch_.rows, padded_, strip.query);
    fill(strip.softmax.maximum, kTileLanes, -kInfinity);
    fill(strip.softmax.sum, kTileLanes, 0.0F);
    strip.has_sums = false;
  }

  // A strip and what it sees of a block.
  struct Piece {
    TileStrip* strip = nullptr;
    const TileBlock* keys = nullptr;
    KeySpan span;
    float *scores = nullptr, *pairs = nullptr;
  };

  void add_block(std::int64_t b) {
    const KeyBlock block = load_key_block(in_.op, shape_, sample_, b * kTileKeys, kTileKeys);
    const TileBlock* copied = nullptr;
    fetch_after(b);
    for (std::size_t i = 0; i < count_; ++i) {
      TileStrip& strip = scratch_.strips[i];
      const KeySpan span = in_whole_steps(visible_span(in_.op.mask, strip.rows.range, block));
      if (span.empty()) continue;
      if (copied == nullptr) copied = &copy_block(block);
      const auto turn = static_cast<std::size_t>(pieces_++ % 2);
      add_piece({&strip, copied, span, scratch_.scores[turn], scratch_.pairs[turn]});
      for (int step = 0; step < kFetches; ++step) ahead_.step();
    }
  }

  const TileBlock& copy_block(const KeyBlock& block) {
    TileBlock& to = scratch_.blocks[static_cast<std::size_t>(copies_++ % 2)];
    // A block of one piece only: the values of the piece before it are not summed yet.
    if (values_of_ == &to) finish_pieces();
    to.block = block;
    const std::int64_t rows = round_up(block.count, 32);
    copy_key_rows(block, in_.key, sample_, group_, rows, shape_.width, padded_, to.keys);
    copy_key_rows(block, in_.value, sample_, group_, rows, shape_.width, padded_,
                  scratch_.value_rows);
    pair_bf16_rows(scratch_.value_rows, rows, padded_, scratch_.value_pairs);
    turn_pairs(scratch_.value_pairs, rows, padded_, to.values);
    return to;
  }

  // Fetches the next block, or after the last one the start of this thread's likely next task.
  void fetch_after(std::int64_t b) {
    const auto fetch_block = [&](std::int64_t sample, std::int64_t group, std::int64_t block) {
      ahead_.add_keys(in_.key, shape_, sample, group, block * kTileKeys, kTileKeys);
      ahead_.add_keys(in_.value, shape_, sample, group, block * kTileKeys, kTileKeys);
    };
    if (b + 1 < shape_.blocks(kTileKeys)) return fetch_block(sample_, group_, b + 1);
    const auto fetch_strips = [&](const HeadRows& rows, const AttentionTask& task) {
      task.strips.for_each(shape_.strips(kTileLanes), [&](std::int64_t i, std::int64_t) {
        ahead_.add_strip(rows, shape_, task.head / shape_.groups, task.head % shape_.groups, i,
                         kTileLanes);
      });
    };
    fetch_strips(problem_.out, task_);
    if (index_ + problem_.threads >= problem_.pass.tasks()) return;
    const AttentionTask next = problem_.pass.task(index_ + problem_.threads);
    fetch_block(next.head / shape_.groups, next.head % shape_.groups, 0);
    fetch_strips(in_.query, next);
  }

  void add_piece(const Piece& piece) {
    if (last_.strip == nullptr) {
      kernel_.multiply(scores_of(piece));
    } else {
      add_softmax_of_last(scores_of(piece));
    }
    last_ = piece;
  }

  void finish_pieces() {
    if (last_.strip == nullptr) return;
    add_softmax_of_last({});
    kernel_.multiply(values_);
    last_ = {};
    values_of_ = nullptr;
  }

  // Beside it: the scores of the next piece, if there is one, and the values of the one before.
  void add_softmax_of_last(const TileProduct& next_scores) {
    const Piece& piece = last_;
    std::array<TileProduct, 2> beside;
    std::size_t products = 0;
    if (next_scores.steps > 0) beside[products++] = next_scores;
    if (values_of_ != nullptr) beside[products++] = values_;
    TileStrip& strip = *piece.strip;
    const KeyBlock& block = piece.keys->block;
    const KeySpan& span = piece.span;
    prepare_scores(in_, strip.rows, block, span, scratch_.columns, piece.scores);
    auto* const kept = reinterpret_cast<std::uint32_t*>(scratch_.kept);
    if (in_.drops()) make_kept(in_.op.dropout, strip.rows, block, span, kept);
    const std::int64_t lanes = 16 * ceil_div(strip.rows.count, 16);
    kernel_.softmax({.keys = span.count(),
                     .lanes = lanes,
                     .scores = piece.scores + span.first * kTileLanes,
                     .factor = kernel_factor(in_),
                     .kept = in_.drops() ? kept + span.first : nullptr,
                     .maximum = strip.softmax.maximum,
                     .sum = strip.softmax.sum,
                     .shrink = scratch_.shrink,
                     .pairs = reinterpret_cast<std::byte*>(piece.pairs)},
                    {beside.data(), products});
    if (strip.has_sums) shrink_sums(strip, lanes);
    values_ = values_product(piece);
    values_of_ = piece.keys;
    strip.has_sums = true;
  }

  TileProduct scores_of(const Piece& piece) const {
    const KeySpan& span = piece.span;
    return {.row_tiles = span.count() / 16,
            .column_tiles = ceil_div(piece.strip->rows.count, 16),
            .steps = padded_ / 32,
            .left = reinterpret_cast<const std::byte*>(piece.keys->keys + span.first * padded_ / 2),
            .left_stride = 2 * padded_,
            .right = reinterpret_cast<const std::byte*>(piece.strip->query),
            .right_stride = kTileLanes * 4,
            .sums = piece.scores + span.first * kTileLanes,
            .sums_stride = kTileLanes * 4};
  }

  TileProduct values_product(const Piece& piece) const {
    return {.row_tiles = width_tiles_,
            .column_tiles = ceil_div(piece.strip->rows.count, 16),
            .steps = piece.span.count() / 32,
            .left = reinterpret_cast<const std::byte*>(piece.keys->values) + 2 * piece.span.first,
            .left_stride = 2 * kTileKeys,
            .right = reinterpret_cast<const std::byte*>(piece.pairs),
            .right_stride = kTileLanes * 4,
            .sums = piece.strip->out,
            .sums_stride = kTileLanes * 4,
            .add = piece.strip->has_sums};
  }

  void shrink_sums(const TileStrip& strip, std::int64_t lanes) const {
    const auto is_one = [](float factor) { return factor == 1.0F; };
    if (std::all_of(scratch_.shrink, scratch_.shrink + lanes, is_one)) return;
    rescale(16 * width_tiles_, lanes, strip.out, kTileLanes, scratch_.shrink);
  }

  void finish(const TileStrip& strip) {
    alignas(64) float lse[kTileLanes];
    alignas(64) float factor[kTileLanes];
    finish_softmax(strip.softmax, kTileLanes, in_.kept_factor, lse, factor);
    if (!strip.has_sums) fill(strip.out, 16 * width_tiles_ * kTileLanes, 0.0F);
    store_strip_lanes<kTileLanes>(strip.out, factor, strip.rows, problem_.out, shape_.width,
                                  scratch_.rows, 16 * width_tiles_);
    for (int lane = 0; lane < strip.rows.count; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      row_statistic(problem_.lse, sample_, strip.rows.head[i], strip.rows.query[i]) = lse[lane];
    }
  }

  static constexpr int kFetches = 4;  // steps of prefetching after a span

  const TileForwardProblem& problem_;
  const AttentionOperands& in_;
  const AttentionShape& shape_;
  const AttentionKernel& kernel_;
  std::int64_t padded_, width_tiles_;
  std::int64_t index_;
  AttentionTask task_;
  std::int64_t sample_, group_;
  TileForwardScratch scratch_;
  std::size_t count_ = 0;
  RowPrefetch ahead_;
  std::int64_t copies_ = 0, pieces_ = 0;
  Piece last_;                            // its softmax is not computed yet
  TileProduct values_;                    // of the piece before it,
  const TileBlock* values_of_ = nullptr;  // from this block; null: none is left to be computed
};

void tile_forward_task(const TileForwardProblem& problem, std::int64_t index, float* base) {
  TileForwardTask(problem, index, base).run();
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(tile_forward_task);

std::int64_t slot_floats(const ops::AttentionInputs& in) {
  return TileForwardScratch(AttentionShape(in), nullptr).size;
}
}  // namespace

std::int64_t amx_workspace_bytes(const CpuDevice& device, const ops::AttentionForward& op) {
  return device.threads * slot_floats(op.in) * static_cast<std::int64_t>(sizeof(float));
}

void amx_attention(const CpuDevice& device, const ops::AttentionForward& op,
                   const AttentionKernel& kernel, std::byte* workspace) {
  const TileForwardProblem problem(device, op, kernel);
  expect_statistic("lse", op.lse);
  const std::int64_t floats = slot_floats(op.in);
  auto* base = reinterpret_cast<float*>(workspace);
  const auto run = HWY_DYNAMIC_DISPATCH(tile_forward_task);
  for_each_task(device.threads, problem.pass.tasks(), [&](std::int64_t task, std::int64_t slot) {
    run(problem, task, base + slot * floats);
  });
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
