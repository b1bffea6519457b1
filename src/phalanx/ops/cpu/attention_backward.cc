// Backward of attention in tiles: probabilities are made again from log-sum-exp (or read), then
// dv = p' dout, dp = dout v', ds = p (dp - delta), dk = ds' q, dq = ds k. Products are of fp32
// tiles.

#include "phalanx/ops/cpu/attention_backward.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_backward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/attention_backward_cut.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/parallel.h"

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

// Makes the packed tiles of a chunk as the blocks come to need them.
class ChunkTiles {
 public:
  ChunkTiles(const BackwardProblem& problem, const BackwardTask& task)
      : in_(problem.in), task_(task), prefetch_(problem.in, task.sample, task.group) {
    for (std::int64_t i = 0; i < count(); ++i) {
      new (task.tiles.key_tiles + i)
          KeyTile(load_key_tile(in_.op, in_.shape, task.sample, task.first_tile + i));
    }
    prefetch_.start(task.first_tile);
    prefetch_.step();
  }

  std::int64_t count() const { return task_.last_tile - task_.first_tile; }
  const KeyTile& operator[](std::int64_t index) const { return task_.tiles.key_tiles[index]; }

  // Call before using the packed rows of a tile.
  void need(std::int64_t index) {
    const std::int64_t floats = kKeyTile * in_.shape.stride;
    for (; packed_ <= index; ++packed_) {
      const KeyTile& tile = (*this)[packed_];
      load_tile_rows(tile, in_.key, task_.sample, task_.group, in_.shape.width,
                     task_.tiles.packed_keys + packed_ * floats, in_.shape.stride);
      load_tile_rows(tile, in_.value, task_.sample, task_.group, in_.shape.width,
                     task_.tiles.packed_values + packed_ * floats, in_.shape.stride);
      prefetch_.start(task_.first_tile + packed_ + 1);
    }
    if (packed_ < count()) prefetch_.step();
  }

 private:
  const AttentionOperands& in_;
  const BackwardTask& task_;
  KeyPrefetch prefetch_;
  std::int64_t packed_ = 0;
};

void prefetch_block(const BackwardProblem& problem, const BackwardTask& task, std::int64_t b) {
  const AttentionShape& shape = problem.in.shape;
  const std::int64_t bytes = shape.width * size_of(problem.in.query.dtype());
  const std::int64_t last = std::min(shape.rows(), (b + 1) * kBlockRows);
  for (std::int64_t row = b * kBlockRows; row < last; ++row) {
    const std::int64_t head = task.group * shape.heads_per_group + row / shape.queries;
    prefetch_row(problem.in.query.at(row % shape.queries, task.sample, head), bytes);
    prefetch_row(problem.dout.at(row % shape.queries, task.sample, head), bytes);
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
  ChunkTiles chunk(problem, task);
  if (task.first_phase) {
    const std::int64_t floats = chunk.count() * kKeyTile * shape.stride;
    fill(task.sums.dkeys, floats, 0.0F);
    fill(task.sums.dvalues, floats, 0.0F);
  }
  for (std::int64_t b = task.first_block; b < task.last_block; ++b) {
    const QueryBlock block = load_query_block(problem.in.op, shape, task.sample, task.group, b);
    float* dquery = task.row_sums.dquery;
    if (problem.cut.chunks > 1) dquery += (b - task.first_block) * block_floats;
    if (task.first_phase) fill(dquery, block_floats, 0.0F);
    load_block(problem, block, task.tiles);
    if (b + 1 < task.last_block) prefetch_block(problem, task, b + 1);
    for (std::int64_t t = 0; t < chunk.count(); ++t) {
      const KeySpan span = visible_span(problem.in.op.mask, block.range, chunk[t]);
      if (span.empty()) continue;
      chunk.need(t);
      add_tile(problem, task, block, chunk[t], span, t, dquery);
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
