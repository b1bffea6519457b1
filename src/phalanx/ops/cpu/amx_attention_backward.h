#pragma once
// What the backward of attention in AMX's tiles has in memory, and how it is cut.
//
// Four strips are a group of 128 queries: sums over queries take a whole group at a time, so that
// sums of dkey and dvalue come to the registers once for four steps of depth. Blocks of keys come
// in sets, so that a group's operands are loaded once for all blocks of a set.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "phalanx/ops/cpu/amx_attention.h"
#include "phalanx/ops/cpu/attention_blocks.h"
#include "phalanx/ops/cpu/attention_cut.h"

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
  QueryGroup() = default;
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

  float *query_turned[kGroupStrips] = {}, *dout_turned[kGroupStrips] = {};
  float *query_pairs = nullptr, *dout_pairs = nullptr;  // [64][padded]
  float *lse = nullptr, *delta = nullptr;               // [128]; lse in base 2
  QueryStrip* strips = nullptr;                         // [4]
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

// One walk over groups of queries and blocks of keys, and which results it computes.
struct TileBackwardPass {
  AttentionPass cut;
  std::int64_t first_sample = 0;
  bool keys = false;     // dkey, dvalue and dbias
  bool queries = false;  // dquery
};

}  // namespace phalanx::cpu
