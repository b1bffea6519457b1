// Fused attention: forward in tiles with an online softmax, and delta. The backward is in
// attention_backward.cc. Products are of fp32 tiles whatever the storage and the product policy.

#include "phalanx/ops/attention.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/attention_backward.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_ATTENTION_ONCE
#define PHALANX_OPS_CPU_ATTENTION_ONCE
namespace phalanx::cpu {
// Blocks of query rows of one task: they share its packed keys and values.
inline constexpr std::int64_t kTaskBlocks = 8;

// A block of query rows and its results so far.
struct ForwardBlock {
  QueryBlock rows;
  float* query;  // lanes [width][32], with the scale
  float* out;    // lanes [width][32], relative to the maximum
  SoftmaxState softmax;
  bool started;  // at the first tile it sees
};

inline void prefetch_block(const QueryBlock& rows, const AttentionOperands& in) {
  for (int lane = 0; lane < rows.count; ++lane) {
    prefetch_row(rows.row(in.query, lane), in.shape.width * size_of(in.query.dtype()));
  }
}

struct ForwardScratch {
  explicit ForwardScratch(const AttentionShape& shape, float* base) {
    FloatArena arena(base);
    keys = arena.take(kKeyTile * shape.stride);
    values = arena.take(kKeyTile * shape.stride);
    rows = arena.take(kBlockRows * shape.stride);
    scores = arena.take(kKeyTile * kBlockRows);
    factor = arena.take(kBlockRows);
    columns.take(arena);
    for (auto& block : blocks) {
      block.query = arena.take(shape.stride * kBlockRows);
      block.out = arena.take(shape.stride * kBlockRows);
      block.softmax.take(arena);
    }
    size = arena.used();
  }

  float *keys, *values;  // [64][stride]
  float* rows;           // [32][stride]
  float* scores;         // [64][32]
  float* factor;         // [32]
  ColumnScratch columns;
  std::array<ForwardBlock, kTaskBlocks> blocks;
  std::int64_t size;
};

struct ForwardProblem {
  explicit ForwardProblem(const ops::AttentionForward& forward)
      : op(forward), in(forward.in), out(HeadRows::of_heads(forward.out)) {
    expect_statistic("lse", forward.lse);
  }

  std::int64_t shares() const { return ceil_div(in.shape.blocks(), kTaskBlocks); }
  std::int64_t tasks() const { return in.shape.batch * in.shape.groups * shares(); }

  const ops::AttentionForward& op;
  AttentionOperands in;
  HeadRows out;
};
}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

void start_block(const AttentionOperands& in, const ForwardScratch& scratch, ForwardBlock& block) {
  const std::int64_t stride = in.shape.stride;
  load_block_rows(block.rows, in.query, in.shape.width, scratch.rows, stride);
  rows_to_lanes(scratch.rows, stride, stride, lanes_of(block.rows),
                static_cast<float>(in.op.scale) * kLog2E, block.query);
  fill(block.out, stride * kBlockRows, 0.0F);
  block.softmax.reset();
  block.started = true;
}

void add_tile(const AttentionOperands& in, const KeyTile& tile, const KeySpan& span,
              const ForwardScratch& scratch, const ForwardBlock& block) {
  const std::int64_t lanes = lanes_of(block.rows);
  const std::int64_t stride = in.shape.stride;
  tile_scores(in, block.rows, tile, span, scratch.keys, block.query, scratch.columns,
              scratch.scores);
  softmax_step(span, lanes, block.softmax, scratch.scores, scratch.factor);
  if (in.drops()) drop(in.op.dropout, block.rows, tile, span, scratch.scores);
  product<Left::kColumns, Into::kRescale>(round_up(in.shape.width, kKeyGroup), lanes, span.count(),
                                          {scratch.values + span.first * stride, stride},
                                          {scratch.scores + span.first * kBlockRows, kBlockRows},
                                          block.out, kBlockRows, scratch.factor);
}

void finish_block(const ForwardProblem& problem, const ForwardScratch& scratch,
                  const ForwardBlock& block) {
  const AttentionShape& shape = problem.in.shape;
  const std::int64_t lanes = lanes_of(block.rows);
  alignas(64) float lse[kBlockRows];
  finish_softmax(block.softmax, lanes, problem.in.kept_factor, lse, scratch.factor);
  lanes_to_rows(block.out, shape.stride, lanes, scratch.factor, scratch.rows, shape.stride);
  store_block_rows(scratch.rows, shape.stride, block.rows, problem.out, shape.width);
  for (int lane = 0; lane < block.rows.count; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    row_statistic(problem.op.lse, block.rows.sample, block.rows.head[i], block.rows.query[i]) =
        lse[lane];
  }
}

void forward_task(const ForwardProblem& problem, std::int64_t task, float* base) {
  const AttentionOperands& in = problem.in;
  const AttentionShape& shape = in.shape;
  const std::int64_t share = folded(task % problem.shares(), problem.shares());
  const std::int64_t group = task / problem.shares() % shape.groups;
  const std::int64_t sample = task / problem.shares() / shape.groups;
  ForwardScratch scratch(shape, base);
  const std::int64_t first = share * kTaskBlocks;
  const std::int64_t count = std::min(kTaskBlocks, shape.blocks() - first);
  for (std::int64_t i = 0; i < count; ++i) {
    ForwardBlock& block = scratch.blocks[static_cast<std::size_t>(i)];
    block.rows = load_query_block(in.op, shape, sample, group, first + i);
    block.started = false;
  }
  KeyPrefetch prefetch(in, sample, group);
  for (std::int64_t t = 0; t < shape.tiles(); ++t) {
    const KeyTile tile = load_key_tile(in.op, shape, sample, t);
    bool packed = false;
    prefetch.start(t + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      ForwardBlock& block = scratch.blocks[static_cast<std::size_t>(i)];
      const KeySpan span = visible_span(in.op.mask, block.rows.range, tile);
      if (span.empty()) continue;
      if (!packed) {
        load_tile_rows(tile, in.key, sample, group, shape.width, scratch.keys, shape.stride);
        load_tile_rows(tile, in.value, sample, group, shape.width, scratch.values, shape.stride);
        packed = true;
      }
      if (!block.started) {
        start_block(in, scratch, block);
        if (i + 1 < count) prefetch_block(scratch.blocks[static_cast<std::size_t>(i + 1)].rows, in);
      }
      prefetch.step();
      add_tile(in, tile, span, scratch, block);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    ForwardBlock& block = scratch.blocks[static_cast<std::size_t>(i)];
    if (!block.started) start_block(in, scratch, block);  // it sees no key
    finish_block(problem, scratch, block);
  }
}

float row_dot(DType a_dtype, const std::byte* a, DType b_dtype, const std::byte* b,
              std::int64_t width) {
  float result = 0.0F;
  with_storage(a_dtype, [&](auto a_type) HWY_ATTR {
    with_storage(b_dtype, [&](auto b_type) HWY_ATTR {
      const auto* left = reinterpret_cast<const decltype(a_type)*>(a);
      const auto* right = reinterpret_cast<const decltype(b_type)*>(b);
      FloatSums sums;
      for_terms<FloatSums>(0, width, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
        auto& sum = sums.at<decltype(k)::value>();
        sum = hn::MulAdd(lanes.load(left + i), lanes.load(right + i), sum);
      });
      result = sums.total();
    });
  });
  return result;
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(forward_task);
HWY_EXPORT(row_dot);
}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionForward& op) {
  const ForwardScratch scratch(AttentionShape(op.in), nullptr);
  return device.threads * scratch.size * static_cast<std::int64_t>(sizeof(float));
}

void execute(CpuDevice& device, const ops::AttentionForward& op, const Tensor& scratch) {
  const ForwardProblem problem(op);
  const std::int64_t slot = ForwardScratch(problem.in.shape, nullptr).size;
  auto* base = reinterpret_cast<float*>(scratch.data());
  parallel_for(device.threads, problem.tasks(), [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(forward_task)(problem, task, base + omp_get_thread_num() * slot);
  });
}

void execute(CpuDevice& device, const ops::AttentionDelta& op, const Tensor& /*scratch*/) {
  const HeadRows out = HeadRows::of_heads(op.out);
  const HeadRows dout = HeadRows::of_heads(op.dout);
  expect_statistic("delta", op.delta);
  const std::int64_t batch = op.out.shape[1];
  const std::int64_t heads = op.out.shape[2];
  const std::int64_t width = op.out.shape[3];
  const Blocks blocks = row_blocks(op.out.shape[0] * batch * heads, width);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t task) {
    for (std::int64_t i = blocks.begin(task); i < blocks.end(task); ++i) {
      const std::int64_t head = i % heads;
      const std::int64_t sample = i / heads % batch;
      const std::int64_t query = i / heads / batch;
      row_statistic(op.delta, sample, head, query) =
          HWY_DYNAMIC_DISPATCH(row_dot)(out.dtype(), out.at(query, sample, head), dout.dtype(),
                                        dout.at(query, sample, head), width);
    }
  });
}

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionBackward& op) {
  return backward_workspace_bytes(device, op.in, op.dbias.defined());
}

void execute(CpuDevice& device, const ops::AttentionBackward& op, const Tensor& scratch) {
  const AttentionGradients gradients{.in = op.in,
                                     .dquery = op.dquery,
                                     .dkey = op.dkey,
                                     .dvalue = op.dvalue,
                                     .dbias = op.dbias,
                                     .dout = op.dout,
                                     .lse = op.lse,
                                     .probabilities = {},
                                     .delta = op.delta};
  run_backward(device, gradients, scratch.data());
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
