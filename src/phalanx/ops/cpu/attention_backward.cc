// Backward of attention in tiles: probabilities are made again from log-sum-exp (or read), then
// dv = p' dout, dp = dout v', ds = p (dp - delta), dk = ds' q, dq = ds k. Products are of fp32
// tiles.
//
// A task owns a range of keys of one key/value head and visits the blocks of query rows. Where
// heads are few, keys and rows are cut into equally many chunks; in phase p, key chunk c meets row
// chunk (c + p) mod chunks, so that no two tasks of a phase touch the same row of any gradient and
// every sum has an order fixed by the shape.

#include "phalanx/ops/cpu/attention_backward.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_backward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_ATTENTION_BACKWARD_ONCE
#define PHALANX_OPS_CPU_ATTENTION_BACKWARD_ONCE
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
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

void load_block(const BackwardProblem& problem, const QueryBlock& block,
                const BackwardTiles& tiles) {
  const AttentionOperands& in = problem.in;
  const std::int64_t stride = in.shape.stride;
  const std::int64_t lanes = lanes_of(block);
  load_block_rows(block, in.query, in.shape.width, tiles.query_rows, stride);
  load_block_rows(block, problem.dout, in.shape.width, tiles.dout_rows, stride);
  rows_to_lanes(tiles.query_rows, stride, stride, lanes, static_cast<float>(in.op.scale) * kLog2E,
                tiles.query_lanes);
  rows_to_lanes(tiles.dout_rows, stride, stride, lanes, 1.0F, tiles.dout_lanes);
  fill(tiles.lse, kBlockRows, 0.0F);
  fill(tiles.delta, kBlockRows, 0.0F);
  fill(tiles.scale, kBlockRows, static_cast<float>(in.op.scale));
  for (int lane = 0; lane < block.count; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    tiles.delta[lane] =
        row_statistic(problem.op.delta, block.sample, block.head[i], block.query[i]);
    if (!problem.op.lse) continue;
    const float lse = row_statistic(problem.op.lse, block.sample, block.head[i], block.query[i]);
    // A row that sees nothing: every exponential of (score - infinity) is 0.
    tiles.lse[lane] = lse == -kInfinity ? kInfinity : lse * kLog2E;
  }
}

// Leaves the probabilities of a span in tiles.scores.
void make_probabilities(const BackwardProblem& problem, const QueryBlock& block,
                        const KeyTile& tile, const KeySpan& span, const float* keys,
                        const BackwardTiles& tiles) {
  if (problem.probabilities) {
    load_key_columns(block, tile, *problem.probabilities, 1.0F, tiles.columns.rows, tiles.scores);
    return;
  }
  tile_scores(problem.in, block, tile, span, keys, tiles.query_lanes, tiles.columns, tiles.scores);
  for (std::int64_t lane = 0; lane < lanes_of(block); lane += lane_count()) {
    const auto lse = load(tiles.lse + lane);
    for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
      float* score = tiles.scores + at + lane;
      store(exp_two(hn::Sub(load(score), lse)), score);
    });
  }
}

// dscores, which hold dout v', become gradients of the scores; the probabilities become those after
// dropout.
void differentiate_softmax(const AttentionOperands& in, const QueryBlock& block,
                           const KeyTile& tile, const KeySpan& span, const BackwardTiles& tiles) {
  std::optional<LaneDropout> dropout;
  if (in.drops()) dropout.emplace(in.op.dropout, block);
  const auto factor = hn::Set(FloatTag(), in.kept_factor);
  for_keys(span, [&](std::size_t key, std::int64_t at) HWY_ATTR {
    const std::uint32_t* words = dropout ? dropout->words(tile.position[key]) : nullptr;
    for (std::int64_t lane = 0; lane < lanes_of(block); lane += lane_count()) {
      const auto probability = load(tiles.scores + at + lane);
      auto gradient = load(tiles.dscores + at + lane);
      if (dropout) {
        const auto dropped = dropout->dropped(words, lane);
        gradient = hn::IfThenZeroElse(dropped, hn::Mul(factor, gradient));
        store(hn::IfThenZeroElse(dropped, probability), tiles.scores + at + lane);
      }
      store(hn::Mul(probability, hn::Sub(gradient, load(tiles.delta + lane))),
            tiles.dscores + at + lane);
    }
  });
}

// dbias[head, query, key] += the gradients of a span.
void add_bias_gradient(const HeadRows& dbias, const QueryBlock& block, const KeyTile& tile,
                       const KeySpan& span, const BackwardTiles& tiles) {
  alignas(64) float ones[kBlockRows];
  fill(ones, kBlockRows, 1.0F);
  lanes_to_rows(tiles.dscores + span.first * kBlockRows, span.count(), lanes_of(block), ones,
                tiles.columns.rows, kKeyTile);
  const std::int64_t last = std::min(span.last, tile.count);
  for (int lane = 0; lane < block.count; ++lane) {
    auto* to = reinterpret_cast<float*>(block.row(dbias, lane)) + tile.first + span.first;
    const float* from = tiles.columns.rows + lane * kKeyTile;
    for_vectors(0, last - span.first, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i);
    });
  }
}

// Everything of one block of rows and one tile of keys, which is tile number `index` of the chunk.
void add_tile(const BackwardProblem& problem, const BackwardTask& task, const QueryBlock& block,
              const KeyTile& tile, const KeySpan& span, std::int64_t index, float* dquery) {
  const AttentionOperands& in = problem.in;
  const BackwardTiles& tiles = task.tiles;
  const std::int64_t stride = in.shape.stride;
  const std::int64_t lanes = lanes_of(block);
  const std::int64_t columns = round_up(in.shape.width, lane_count());
  const std::int64_t tile_at = index * kKeyTile * stride;
  const std::int64_t at = tile_at + span.first * stride;
  float* probabilities = tiles.scores + span.first * kBlockRows;
  float* dscores = tiles.dscores + span.first * kBlockRows;

  make_probabilities(problem, block, tile, span, tiles.packed_keys + tile_at, tiles);
  product<Left::kRows, Into::kOverwrite>(span.count(), lanes, in.shape.width,
                                         {tiles.packed_values + at, stride},
                                         {tiles.dout_lanes, kBlockRows}, dscores, kBlockRows);
  differentiate_softmax(in, block, tile, span, tiles);
  product<Left::kRows, Into::kAdd>(span.count(), columns, block.count, {probabilities, kBlockRows},
                                   {tiles.dout_rows, stride}, task.sums.dvalues + at, stride);
  product<Left::kRows, Into::kAdd>(span.count(), columns, block.count, {dscores, kBlockRows},
                                   {tiles.query_rows, stride}, task.sums.dkeys + at, stride);
  product<Left::kColumns, Into::kAdd>(round_up(in.shape.width, kKeyGroup), lanes, span.count(),
                                      {tiles.packed_keys + at, stride}, {dscores, kBlockRows},
                                      dquery, kBlockRows);
  if (problem.dbias) add_bias_gradient(*problem.dbias, block, tile, span, tiles);
}

void pack_keys(const BackwardProblem& problem, const BackwardTask& task) {
  const AttentionShape& shape = problem.in.shape;
  const std::int64_t tile_floats = kKeyTile * shape.stride;
  for (std::int64_t t = task.first_tile; t < task.last_tile; ++t) {
    const KeyTile tile = load_key_tile(problem.in.op, shape, task.sample, t);
    const std::int64_t at = (t - task.first_tile) * tile_floats;
    load_tile_rows(tile, problem.in.key, task.sample, task.group, shape.width,
                   task.tiles.packed_keys + at, shape.stride);
    load_tile_rows(tile, problem.in.value, task.sample, task.group, shape.width,
                   task.tiles.packed_values + at, shape.stride);
  }
  if (task.first_phase) {
    const std::int64_t floats = (task.last_tile - task.first_tile) * tile_floats;
    fill(task.sums.dkeys, floats, 0.0F);
    fill(task.sums.dvalues, floats, 0.0F);
  }
}

// Multiplies the sums by the factors that were left out of them, and rounds them to storage.
void store_key_gradients(const BackwardProblem& problem, const BackwardTask& task) {
  const AttentionShape& shape = problem.in.shape;
  const auto scale = static_cast<float>(problem.in.op.scale);
  const auto store_scaled = [&](float* row, float factor, const HeadRows& to, std::int64_t key) {
    for (std::int64_t i = 0; i < shape.stride; i += lane_count()) {
      store(hn::Mul(hn::Set(FloatTag(), factor), load(row + i)), row + i);
    }
    store_row(row, shape.width, to.dtype(), to.at(key, task.sample, task.group));
  };
  const std::int64_t first = task.first_tile * kKeyTile;
  for (std::int64_t key = first; key < std::min(shape.keys, task.last_tile * kKeyTile); ++key) {
    store_scaled(task.sums.dkeys + (key - first) * shape.stride, scale, problem.dkey, key);
    store_scaled(task.sums.dvalues + (key - first) * shape.stride, problem.in.kept_factor,
                 problem.dvalue, key);
  }
}

void backward_task(const BackwardProblem& problem, const BackwardTask& task) {
  const AttentionShape& shape = problem.in.shape;
  const std::int64_t block_floats = shape.stride * kBlockRows;
  pack_keys(problem, task);
  for (std::int64_t b = task.first_block; b < task.last_block; ++b) {
    const QueryBlock block = load_query_block(problem.in.op, shape, task.sample, task.group, b);
    float* dquery = task.row_sums.dquery;
    if (problem.cut.chunks > 1) dquery += (b - task.first_block) * block_floats;
    if (task.first_phase) fill(dquery, block_floats, 0.0F);
    load_block(problem, block, task.tiles);
    for (std::int64_t t = task.first_tile; t < task.last_tile; ++t) {
      const KeyTile tile = load_key_tile(problem.in.op, shape, task.sample, t);
      const KeySpan span = visible_span(problem.in.op.mask, block.range, tile);
      if (span.empty()) continue;
      add_tile(problem, task, block, tile, span, t - task.first_tile, dquery);
    }
    if (!task.last_phase) continue;
    lanes_to_rows(dquery, shape.stride, lanes_of(block), task.tiles.scale, task.tiles.result_rows,
                  shape.stride);
    store_block_rows(task.tiles.result_rows, shape.stride, block, problem.dquery, shape.width);
  }
  if (task.last_phase) store_key_gradients(problem, task);
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(backward_task);

std::int64_t sum_sets(const BackwardCut& cut, int threads) {
  return cut.chunks == 1 ? threads : cut.tasks;
}

// Task `index` of a phase, for samples from first_sample on; `floats` is the scratch.
BackwardTask make_task(const BackwardProblem& problem, std::int64_t first_sample,
                       std::int64_t phase, std::int64_t index, std::int64_t thread, int threads,
                       float* floats) {
  const AttentionShape& shape = problem.in.shape;
  const BackwardCut& cut = problem.cut;
  const std::int64_t head = index / cut.chunks;
  const std::int64_t keys = folded(index % cut.chunks, cut.chunks);
  const std::int64_t rows = (keys + phase) % cut.chunks;
  const std::int64_t tiles = ceil_div(shape.tiles(), cut.chunks);
  const std::int64_t blocks = ceil_div(shape.blocks(), cut.chunks);
  const std::int64_t tile_floats = BackwardTiles(shape, cut, nullptr).size;
  const std::int64_t sum_floats = BackwardSums(shape, cut, nullptr).size;
  float* sums = floats + threads * tile_floats;
  const auto sums_of = [&](std::int64_t chunk) {
    const std::int64_t set = cut.chunks == 1 ? thread : head * cut.chunks + chunk;
    return BackwardSums(shape, cut, sums + set * sum_floats);
  };
  return {.sample = first_sample + head / shape.groups,
          .group = head % shape.groups,
          .first_tile = std::min(shape.tiles(), keys * tiles),
          .last_tile = std::min(shape.tiles(), (keys + 1) * tiles),
          .first_block = std::min(shape.blocks(), rows * blocks),
          .last_block = std::min(shape.blocks(), (rows + 1) * blocks),
          .first_phase = phase == 0,
          .last_phase = phase == cut.chunks - 1,
          .tiles = BackwardTiles(shape, cut, floats + thread * tile_floats),
          .sums = sums_of(keys),
          .row_sums = sums_of(rows)};
}
}  // namespace

std::int64_t backward_workspace_bytes(const CpuDevice& device, const ops::AttentionInputs& in,
                                      bool bias_gradient) {
  const AttentionShape shape(in);
  const BackwardCut cut(shape, bias_gradient);
  const std::int64_t floats =
      device.threads * BackwardTiles(shape, cut, nullptr).size +
      sum_sets(cut, device.threads) * BackwardSums(shape, cut, nullptr).size;
  return floats * static_cast<std::int64_t>(sizeof(float));
}

void run_backward(const CpuDevice& device, const AttentionGradients& gradients,
                  std::byte* scratch) {
  const BackwardProblem problem(gradients);
  const BackwardCut& cut = problem.cut;
  auto* floats = reinterpret_cast<float*>(scratch);
  for (std::int64_t sample = 0; sample < problem.in.shape.batch; sample += cut.samples_at_once) {
    for (std::int64_t phase = 0; phase < cut.chunks; ++phase) {
      parallel_for(device.threads, cut.tasks, [&](std::int64_t index) {
        HWY_DYNAMIC_DISPATCH(backward_task)
        (problem,
         make_task(problem, sample, phase, index, omp_get_thread_num(), device.threads, floats));
      });
    }
  }
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
