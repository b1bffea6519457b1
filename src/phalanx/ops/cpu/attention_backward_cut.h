#pragma once
// How the backward of attention is cut into tasks, and their scratch.
//
// A task owns a range of keys of one key/value head and visits the blocks of query rows. Where
// heads are few, keys and rows are cut into equally many chunks; in phase p, key chunk c meets row
// chunk (c + p) mod chunks, so that no two tasks of a phase touch the same row of any gradient and
// every sum has an order fixed by the shape.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "phalanx/ops/cpu/attention_backward.h"

namespace phalanx::cpu {

// Tasks of a phase that suffice to keep the threads of a rank busy, and keys that make a chunk
// worth its phase.
inline constexpr std::int64_t kEnoughTasks = 16;
inline constexpr std::int64_t kChunkKeys = 256;

// How the work is cut.
struct BackwardCut {
  BackwardCut(const AttentionShape& shape, bool bias_gradient)
      // Samples add into the same dbias, so with it they are phases instead of tasks.
      : samples_at_once(bias_gradient ? 1 : shape.batch),
        chunks(std::clamp<std::int64_t>(
            ceil_div(kEnoughTasks, std::max<std::int64_t>(1, samples_at_once * shape.groups)), 1,
            std::max<std::int64_t>(1, shape.keys / kChunkKeys))),
        tasks(samples_at_once * shape.groups * chunks) {}

  std::int64_t samples_at_once;
  std::int64_t chunks;  // of the keys and of the rows
  std::int64_t tasks;   // of a phase
};

// The tiles of a task: temporary, so one set per thread.
struct BackwardTiles {
  BackwardTiles(const AttentionShape& shape, const BackwardCut& cut, float* base) {
    FloatArena arena(base);
    const std::int64_t keys = ceil_div(shape.tiles(), cut.chunks) * kKeyTile;
    key_tiles = reinterpret_cast<KeyTile*>(
        arena.take(keys / kKeyTile * static_cast<std::int64_t>(sizeof(KeyTile) / sizeof(float))));
    packed_keys = arena.take(keys * shape.stride);
    packed_values = arena.take(keys * shape.stride);
    query_rows = arena.take(kBlockRows * shape.stride);
    query_lanes = arena.take(kBlockRows * shape.stride);
    dout_rows = arena.take(kBlockRows * shape.stride);
    dout_lanes = arena.take(kBlockRows * shape.stride);
    result_rows = arena.take(kBlockRows * shape.stride);
    scores = arena.take(kKeyTile * kBlockRows);
    dscores = arena.take(kKeyTile * kBlockRows);
    lse = arena.take(kBlockRows);
    delta = arena.take(kBlockRows);
    scale = arena.take(kBlockRows);
    columns.take(arena);
    size = arena.used();
  }

  KeyTile* key_tiles;                           // of a chunk
  float *packed_keys, *packed_values;           // [keys of a chunk][stride]
  float *query_rows, *dout_rows, *result_rows;  // [32][stride]
  float *query_lanes, *dout_lanes;              // [width][32]; the query with the scale
  float *scores, *dscores;                      // [64][32]
  float *lse, *delta, *scale;                   // [32]
  ColumnScratch columns;
  std::int64_t size;
};

// Sums over phases, which live as long as their task's chunks do: with one chunk a set per thread,
// else one per task.
struct BackwardSums {
  BackwardSums(const AttentionShape& shape, const BackwardCut& cut, float* base) {
    FloatArena arena(base);
    const std::int64_t keys = ceil_div(shape.tiles(), cut.chunks) * kKeyTile;
    const std::int64_t blocks = cut.chunks == 1 ? 1 : ceil_div(shape.blocks(), cut.chunks);
    dkeys = arena.take(keys * shape.stride);
    dvalues = arena.take(keys * shape.stride);
    dquery = arena.take(blocks * shape.stride * kBlockRows);
    size = arena.used();
  }

  float *dkeys, *dvalues;  // [keys of a chunk][stride]
  float* dquery;           // lanes of the blocks of a chunk
  std::int64_t size;
};

struct BackwardProblem {
  explicit BackwardProblem(const AttentionGradients& gradients)
      : op(gradients),
        in(gradients.in),
        cut(in.shape, gradients.dbias.defined()),
        dquery(HeadRows::of_heads(gradients.dquery)),
        dkey(HeadRows::of_heads(gradients.dkey)),
        dvalue(HeadRows::of_heads(gradients.dvalue)),
        dout(HeadRows::of_heads(gradients.dout)) {
    expect_statistic("delta", op.delta);
    if (op.lse) expect_statistic("lse", op.lse);
    if (op.probabilities) probabilities = HeadRows::of_probabilities(op.probabilities);
    if (op.dbias) {
      expect_statistic("dbias", op.dbias);
      dbias = HeadRows::of_bias(op.dbias);
    }
  }

  const AttentionGradients& op;
  AttentionOperands in;
  BackwardCut cut;
  HeadRows dquery, dkey, dvalue, dout;
  std::optional<HeadRows> probabilities, dbias;
};

// One meeting of a key chunk and a row chunk.
struct BackwardTask {
  std::int64_t sample, group;
  std::int64_t first_tile, last_tile;
  std::int64_t first_block, last_block;
  bool first_phase, last_phase;
  BackwardTiles tiles;
  BackwardSums sums;      // of the key chunk
  BackwardSums row_sums;  // of the task that owns dquery of the row chunk
};

}  // namespace phalanx::cpu
