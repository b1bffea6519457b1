// Unfused attention: the probabilities of whole rows are made, rounded to storage and kept. The
// same tiles and the same dropout as in attention.cc; outputs and gradients are those of the
// probabilities as stored.

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "phalanx/ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/unfused_attention.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/attention_backward.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_UNFUSED_ATTENTION_ONCE
#define PHALANX_OPS_CPU_UNFUSED_ATTENTION_ONCE
namespace phalanx::cpu {

// One block of query rows is a task.
struct UnfusedTask {
  UnfusedTask(const AttentionOperands& in, std::int64_t index)
      : block(load_query_block(in.op, in.shape, index / in.shape.blocks() / in.shape.groups,
                               index / in.shape.blocks() % in.shape.groups,
                               folded(index % in.shape.blocks(), in.shape.blocks()))) {}

  static std::int64_t count(const AttentionShape& shape) {
    return shape.batch * shape.groups * shape.blocks();
  }

  QueryBlock block;
};

struct UnfusedScratch {
  UnfusedScratch(const AttentionShape& shape, float* base) {
    FloatArena arena(base);
    packed = arena.take(kKeyTile * shape.stride);
    rows = arena.take(kBlockRows * shape.stride);
    lanes = arena.take(kBlockRows * shape.stride);
    out = arena.take(kBlockRows * shape.stride);
    factor = arena.take(kBlockRows);
    softmax.take(arena);
    columns.take(arena);
    scores = arena.take(shape.tiles() * kKeyTile * kBlockRows);
    size = arena.used();
  }

  float* packed;       // keys or values, [64][stride]
  float* rows;         // [32][stride]
  float *lanes, *out;  // [width][32]
  float* factor;       // [32]
  SoftmaxState softmax;
  ColumnScratch columns;
  float* scores;  // [keys][32]
  std::int64_t size;
};

struct UnfusedProblem {
  explicit UnfusedProblem(const ops::UnfusedAttentionForward& op)
      : in(op.in),
        out(HeadRows::of_heads(op.out)),
        probabilities(HeadRows::of_probabilities(op.probabilities)) {}

  AttentionOperands in;
  HeadRows out, probabilities;
};

// What the backward adds to the fused one: delta, sum over keys of p' (dout v').
struct UnfusedDelta {
  explicit UnfusedDelta(const ops::UnfusedAttentionBackward& op, Tensor result)
      : in(op.in),
        dout(HeadRows::of_heads(op.dout)),
        probabilities(HeadRows::of_probabilities(op.probabilities)),
        delta(result) {}

  AttentionOperands in;
  HeadRows dout, probabilities;
  Tensor delta;  // [b, heads, sq]
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

// Calls body(tile, span, score tile) for the tiles that the block sees.
template <typename Body>
HWY_INLINE void for_seen_tiles(const AttentionOperands& in, const QueryBlock& block, float* scores,
                               const Body& body) {
  for (std::int64_t t = 0; t < in.shape.tiles(); ++t) {
    const KeyTile tile = load_key_tile(in.op, in.shape, block.sample, t);
    const KeySpan span = visible_span(in.op.mask, block.range, tile);
    if (!span.empty()) body(tile, span, scores + tile.first * kBlockRows);
  }
}

// Exponentials relative to the maximum of the whole row, and their sums.
void exponentiate(const KeySpan& span, std::int64_t lanes, const SoftmaxState& softmax,
                  float* scores) {
  for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
    const auto reference = finite_or_zero(load(softmax.maximum + lane));
    auto sum = load(softmax.sum + lane);
    for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
      const auto power = exp_two(hn::Sub(load(scores + at + lane), reference));
      sum = hn::Add(sum, power);
      store(power, scores + at + lane);
    });
    store(sum, softmax.sum + lane);
  }
}

// Probabilities as storage keeps them.
void normalise(const KeySpan& span, std::int64_t lanes, const float* factor, DType storage,
               float* scores) {
  with_storage(storage, [&](auto type) HWY_ATTR {
    for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
      const auto inverse = load(factor + lane);
      for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
        float* to = scores + at + lane;
        store(round_to<decltype(type)>(hn::Mul(inverse, load(to))), to);
      });
    }
  });
}

// Writes one score tile to the rows of the probabilities.
void store_probabilities(const UnfusedProblem& problem, const QueryBlock& block,
                         const KeyTile& tile, const UnfusedScratch& scratch, const float* scores) {
  alignas(64) float ones[kBlockRows];
  fill(ones, kBlockRows, 1.0F);
  lanes_to_rows(scores, kKeyTile, lanes_of(block), ones, scratch.columns.rows, kKeyTile);
  const DType storage = problem.probabilities.dtype();
  for (int lane = 0; lane < block.count; ++lane) {
    store_row(scratch.columns.rows + lane * kKeyTile, tile.count, storage,
              block.row(problem.probabilities, lane) + tile.first * size_of(storage));
  }
}

void make_scores(const AttentionOperands& in, const QueryBlock& block,
                 const UnfusedScratch& scratch) {
  const AttentionShape& shape = in.shape;
  load_block_rows(block, in.query, shape.width, scratch.rows, shape.stride);
  rows_to_lanes(scratch.rows, shape.stride, shape.stride, lanes_of(block),
                static_cast<float>(in.op.scale) * kLog2E, scratch.lanes);
  scratch.softmax.reset();
  fill(scratch.scores, shape.tiles() * kKeyTile * kBlockRows, 0.0F);
  for_seen_tiles(
      in, block, scratch.scores,
      [&](const KeyTile& tile, const KeySpan& span, float* scores) HWY_ATTR {
        load_tile_rows(tile, in.key, block.sample, block.group, shape.width, scratch.packed,
                       shape.stride);
        tile_scores(in, block, tile, span, scratch.packed, scratch.lanes, scratch.columns, scores);
        for (std::int64_t lane = 0; lane < lanes_of(block); lane += lane_count()) {
          store(column_maximum(scores + lane, span, load(scratch.softmax.maximum + lane)),
                scratch.softmax.maximum + lane);
        }
      });
}

void unfused_forward_task(const UnfusedProblem& problem, std::int64_t index, float* base) {
  const AttentionOperands& in = problem.in;
  const AttentionShape& shape = in.shape;
  const QueryBlock block = UnfusedTask(in, index).block;
  const UnfusedScratch scratch(shape, base);
  const std::int64_t lanes = lanes_of(block);
  make_scores(in, block, scratch);
  for_seen_tiles(in, block, scratch.scores,
                 [&](const KeyTile&, const KeySpan& span, float* scores)
                     HWY_ATTR { exponentiate(span, lanes, scratch.softmax, scores); });
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const float sum = scratch.softmax.sum[lane];
    scratch.factor[lane] = sum == 0.0F ? 0.0F : 1.0F / sum;
  }
  fill(scratch.out, shape.stride * kBlockRows, 0.0F);
  for (std::int64_t t = 0; t < shape.tiles(); ++t) {
    const KeyTile tile = load_key_tile(in.op, shape, block.sample, t);
    const KeySpan span = visible_span(in.op.mask, block.range, tile);
    float* scores = scratch.scores + tile.first * kBlockRows;
    normalise(span, lanes, scratch.factor, problem.probabilities.dtype(), scores);
    store_probabilities(problem, block, tile, scratch, scores);
    if (span.empty()) continue;
    if (in.drops()) drop(in.op.dropout, block, tile, span, scores);
    load_tile_rows(tile, in.value, block.sample, block.group, shape.width, scratch.packed,
                   shape.stride);
    product<Left::kColumns, Into::kAdd>(round_up(shape.width, kKeyGroup), lanes, span.count(),
                                        {scratch.packed + span.first * shape.stride, shape.stride},
                                        {scores + span.first * kBlockRows, kBlockRows}, scratch.out,
                                        kBlockRows);
  }
  fill(scratch.factor, kBlockRows, in.kept_factor);
  lanes_to_rows(scratch.out, shape.stride, lanes, scratch.factor, scratch.rows, shape.stride);
  store_block_rows(scratch.rows, shape.stride, block, problem.out, shape.width);
}

void unfused_delta_task(const UnfusedDelta& problem, std::int64_t index, float* base) {
  const AttentionOperands& in = problem.in;
  const AttentionShape& shape = in.shape;
  const QueryBlock block = UnfusedTask(in, index).block;
  const UnfusedScratch scratch(shape, base);
  const std::int64_t lanes = lanes_of(block);
  load_block_rows(block, problem.dout, shape.width, scratch.rows, shape.stride);
  rows_to_lanes(scratch.rows, shape.stride, shape.stride, lanes, 1.0F, scratch.lanes);
  fill(scratch.factor, kBlockRows, 0.0F);
  for_seen_tiles(in, block, scratch.scores,
                 [&](const KeyTile& tile, const KeySpan& span, float* products) HWY_ATTR {
                   load_tile_rows(tile, in.value, block.sample, block.group, shape.width,
                                  scratch.packed, shape.stride);
                   product<Left::kRows, Into::kOverwrite>(
                       span.count(), lanes, shape.width,
                       {scratch.packed + span.first * shape.stride, shape.stride},
                       {scratch.lanes, kBlockRows}, products + span.first * kBlockRows, kBlockRows);
                   float* probabilities = scratch.columns.lanes;
                   load_key_columns(block, tile, problem.probabilities, 1.0F, scratch.columns.rows,
                                    probabilities);
                   if (in.drops()) drop(in.op.dropout, block, tile, span, probabilities);
                   for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
                     auto sum = load(scratch.factor + lane);
                     for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
                       sum = hn::MulAdd(load(probabilities + at + lane), load(products + at + lane),
                                        sum);
                     });
                     store(sum, scratch.factor + lane);
                   }
                 });
  for (int lane = 0; lane < block.count; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    row_statistic(problem.delta, block.sample, block.head[i], block.query[i]) =
        in.kept_factor * scratch.factor[lane];
  }
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(unfused_forward_task);
HWY_EXPORT(unfused_delta_task);

std::int64_t unfused_bytes(const CpuDevice& device, const AttentionShape& shape) {
  return device.threads * UnfusedScratch(shape, nullptr).size *
         static_cast<std::int64_t>(sizeof(float));
}

std::int64_t delta_bytes(const AttentionShape& shape) {
  return round_up(
      shape.batch * shape.heads * shape.queries * static_cast<std::int64_t>(sizeof(float)),
      kArenaAlignment);
}
}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionForward& op) {
  return unfused_bytes(device, AttentionShape(op.in));
}

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionBackward& op) {
  const AttentionShape shape(op.in);
  return delta_bytes(shape) + std::max(unfused_bytes(device, shape),
                                       backward_workspace_bytes(device, op.in, op.dbias.defined()));
}

void execute(CpuDevice& device, const ops::UnfusedAttentionForward& op, const Tensor& scratch) {
  const UnfusedProblem problem(op);
  const std::int64_t slot = UnfusedScratch(problem.in.shape, nullptr).size;
  auto* base = reinterpret_cast<float*>(scratch.data());
  parallel_for(device.threads, UnfusedTask::count(problem.in.shape), [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(unfused_forward_task)
    (problem, task, base + omp_get_thread_num() * slot);
  });
}

void execute(CpuDevice& device, const ops::UnfusedAttentionBackward& op, const Tensor& scratch) {
  const AttentionShape shape(op.in);
  const Tensor delta = dense_tensor(*scratch.arena, scratch.offset, DType::kF32,
                                    {shape.batch, shape.heads, shape.queries});
  std::byte* rest = scratch.data() + delta_bytes(shape);
  const UnfusedDelta problem(op, delta);
  const std::int64_t slot = UnfusedScratch(shape, nullptr).size;
  parallel_for(device.threads, UnfusedTask::count(shape), [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(unfused_delta_task)
    (problem, task, reinterpret_cast<float*>(rest) + omp_get_thread_num() * slot);
  });
  const AttentionGradients gradients{.in = op.in,
                                     .dquery = op.dquery,
                                     .dkey = op.dkey,
                                     .dvalue = op.dvalue,
                                     .dbias = op.dbias,
                                     .dout = op.dout,
                                     .lse = {},
                                     .probabilities = op.probabilities,
                                     .delta = delta};
  run_backward(device, gradients, rest);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
