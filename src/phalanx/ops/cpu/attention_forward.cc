// The forward of attention, fused and unfused. A task has some strips of queries of one
// key/value head and walks over the blocks of keys. It copies a block once for all its strips.
//
// Fused: an online softmax. Unfused: a first walk over the keys computes the statistics of the
// rows; a second walk computes probabilities, rounded to storage, and the output. It computes
// scores twice, so scratch holds none. Both use the same products and the same dropout.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_forward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/amx_attention.h"
#include "phalanx/ops/cpu/attention_cut.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_ATTENTION_FORWARD_ONCE
#define PHALANX_OPS_CPU_ATTENTION_FORWARD_ONCE
namespace phalanx::cpu {

// A strip of a task and its results so far.
struct ForwardStrip {
  QueryStrip rows;
  float* query;  // lanes, [groups of the width][48]
  float* out;    // lanes [width][48]
  SoftmaxState softmax;
};

struct ForwardScratch {
  ForwardScratch(const AttentionShape& shape, float* base) {
    FloatArena arena(base);
    keys = arena.take(kBlockKeys * shape.stride);
    values = arena.take(kBlockKeys * shape.stride);
    rows = arena.take(kStripRows * shape.stride);
    scores = arena.take(kScoreKeys * kStripRows);
    factor = arena.take(kStripRows);
    columns.take(arena);
    for (auto& strip : strips) {
      strip.query = arena.take(shape.stride * kStripRows);
      strip.out = arena.take(shape.stride * kStripRows);
      strip.softmax.take(arena);
    }
    size = arena.used();
  }

  float *keys, *values;  // [256][stride]
  float* rows;           // [48][stride]
  float* scores;         // [256][48]
  float* factor;         // [48]
  ColumnScratch columns;
  std::array<ForwardStrip, kMostStrips> strips;
  std::int64_t size;
};

// Holds the operands of the fused op (lse) or of the unfused op (probabilities).
struct ForwardProblem {
  ForwardProblem(const CpuDevice& device, const ops::AttentionInputs& inputs, const Tensor& output)
      : in(inputs, device.products),
        out(HeadRows::of_heads(output)),
        pass(strip_pass(in.shape.batch * in.shape.groups, in.shape.strips(), device.threads)),
        threads(device.threads) {}

  AttentionOperands in;
  HeadRows out;
  Tensor lse;
  std::optional<HeadRows> probabilities;
  AttentionPass pass;
  int threads;
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

// A task on a thread: its strips, and the walks over the keys.
class ForwardTask {
 public:
  ForwardTask(const ForwardProblem& problem, std::int64_t index, float* base)
      : problem_(problem),
        in_(problem.in),
        shape_(problem.in.shape),
        index_(index),
        task_(problem.pass.task(index)),
        sample_(task_.head / shape_.groups),
        group_(task_.head % shape_.groups),
        scratch_(shape_, base) {
    task_.strips.for_each(shape_.strips(), [&](std::int64_t i, std::int64_t) HWY_ATTR {
      ForwardStrip& strip = scratch_.strips[count_++];
      strip.rows = load_query_strip(in_.op, shape_, sample_, group_, i);
      start(strip);
    });
  }

  void run() {
    walk([&](ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) HWY_ATTR {
      if (!span.empty()) add_block(strip, block, span);
    });
    for_strips([&](ForwardStrip& strip) HWY_ATTR { finish(strip); });
  }

  void run_unfused() {
    walk([&](ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) HWY_ATTR {
      if (span.empty()) return;
      scores(strip, block, span);
      softmax_step(span, lanes_of(strip.rows), strip.softmax, scratch_.scores, scratch_.factor);
    });
    walk([&](ForwardStrip& strip, const KeyBlock& block, const KeySpan& span)
             HWY_ATTR { add_probabilities(strip, block, span); });
    for_strips([&](ForwardStrip& strip) HWY_ATTR {
      fill(scratch_.factor, kStripRows, in_.kept_factor);
      store_output(strip);
    });
  }

 private:
  template <typename Body>
  void for_strips(const Body& body) {
    for (std::size_t i = 0; i < count_; ++i) body(scratch_.strips[i]);
  }

  void start(ForwardStrip& strip) {
    const std::int64_t lanes = lanes_of(strip.rows);
    const std::int64_t groups = in_.groups_of(shape_.stride);
    load_strip_rows(strip.rows, in_.query, shape_.width, query_factor(in_), scratch_.rows,
                    shape_.stride);
    if (in_.pairs != nullptr) narrow_rows(scratch_.rows, lanes, shape_.stride);
    transpose(scratch_.rows, groups, lanes, groups, strip.query, kStripRows);
    fill(strip.out, shape_.stride * kStripRows, 0.0F);
    strip.softmax.reset();
  }

  // Calls body(strip, block, visible span) for every block in order and every strip. Scratch holds
  // the keys and values of a block that some strip sees.
  template <typename Body>
  void walk(const Body& body) {
    for (std::int64_t b = 0; b < shape_.blocks(); ++b) {
      const KeyBlock block = load_key_block(in_.op, shape_, sample_, b * kBlockKeys);
      bool copied = false;
      fetch_after(b);
      for_strips([&](ForwardStrip& strip) HWY_ATTR {
        const KeySpan span = visible_span(in_.op.mask, strip.rows.range, block);
        if (!span.empty() && !copied) {
          load_key_rows(block, in_.key, sample_, group_, shape_.width, scratch_.keys,
                        shape_.stride);
          load_key_rows(block, in_.value, sample_, group_, shape_.width, scratch_.values,
                        shape_.stride);
          if (in_.pairs != nullptr) {
            const std::int64_t rows = round_up(block.count, kKeyGroup);
            narrow_rows(scratch_.keys, rows, shape_.stride);
            pair_rows(scratch_.values, rows, shape_.stride, scratch_.values);
          }
          copied = true;
        }
        body(strip, block, span);
      });
    }
  }

  // Fetches what comes after a block: the next block, or after the last one the output rows and the
  // start of this thread's likely next task.
  void fetch_after(std::int64_t b) {
    const auto fetch_block = [&](std::int64_t sample, std::int64_t group, std::int64_t block) {
      ahead_.add_keys(in_.key, shape_, sample, group, block * kBlockKeys);
      ahead_.add_keys(in_.value, shape_, sample, group, block * kBlockKeys);
    };
    if (b + 1 < shape_.blocks()) return fetch_block(sample_, group_, b + 1);
    const auto fetch_strips = [&](const HeadRows& rows, const AttentionTask& task) {
      task.strips.for_each(shape_.strips(), [&](std::int64_t i, std::int64_t) {
        ahead_.add_strip(rows, shape_, task.head / shape_.groups, task.head % shape_.groups, i);
      });
    };
    fetch_strips(problem_.out, task_);
    if (index_ + problem_.threads >= problem_.pass.tasks()) return;
    const AttentionTask next = problem_.pass.task(index_ + problem_.threads);
    fetch_block(next.head / shape_.groups, next.head % shape_.groups, 0);
    fetch_strips(in_.query, next);
  }

  void scores(const ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) {
    make_scores(in_, strip.rows, block, span, scratch_.keys, strip.query, scratch_.columns,
                scratch_.scores, ahead_);
  }

  // out = out * factor + values' probabilities.
  template <Into kInto>
  void add_values(const ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) {
    if (in_.drops()) drop(in_.op.dropout, strip.rows, block, span, scratch_.scores);
    float* probabilities = scratch_.scores + span.first * kStripRows;
    if (in_.pairs != nullptr) {
      pair_rows(probabilities, span.count(), kStripRows, probabilities);
    }
    const float* values = scratch_.values + in_.groups_of(span.first) * shape_.stride;
    product<Left::kColumns, kInto>(in_.pairs, round_up(shape_.width, kKeyGroup),
                                   lanes_of(strip.rows), in_.groups_of(span.count()),
                                   {values, shape_.stride}, {probabilities, kStripRows}, strip.out,
                                   kStripRows, scratch_.factor, ahead_);
  }

  void add_block(const ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) {
    scores(strip, block, span);
    softmax_step(span, lanes_of(strip.rows), strip.softmax, scratch_.scores, scratch_.factor);
    add_values<Into::kRescale>(strip, block, span);
  }

  // Multiplies the lanes by scratch.factor.
  void store_output(const ForwardStrip& strip) {
    store_strip_lanes(strip.out, scratch_.factor, strip.rows, problem_.out, shape_.width,
                      scratch_.rows, shape_.stride);
  }

  void finish(const ForwardStrip& strip) {
    alignas(64) float lse[kStripRows];
    finish_softmax(strip.softmax, lanes_of(strip.rows), in_.kept_factor, lse, scratch_.factor);
    store_output(strip);
    for (int lane = 0; lane < strip.rows.count; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      row_statistic(problem_.lse, sample_, strip.rows.head[i], strip.rows.query[i]) = lse[lane];
    }
  }

  void add_probabilities(const ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) {
    if (!span.empty()) {
      scores(strip, block, span);
      const DType storage = problem_.probabilities->dtype();
      normalise(span, lanes_of(strip.rows), strip.softmax, storage, scratch_.scores);
    }
    store_probabilities(strip, block, span);
    if (!span.empty()) add_values<Into::kAdd>(strip, block, span);
  }

  // Zeros outside the span.
  void store_probabilities(const ForwardStrip& strip, const KeyBlock& block, const KeySpan& span) {
    const HeadRows& to = *problem_.probabilities;
    fill(scratch_.scores, span.first * kStripRows, 0.0F);
    fill(scratch_.scores + span.last * kStripRows, (kBlockKeys - span.last) * kStripRows, 0.0F);
    for_pieces({.first = 0, .last = block.count}, [&](int first, int keys) HWY_ATTR {
      make_columns(scratch_.scores + first * kStripRows, strip.rows, keys, scratch_.columns.rows);
      for (int lane = 0; lane < strip.rows.count; ++lane) {
        store_row(scratch_.columns.rows + lane * kColumnPiece, keys, 1.0F, to.dtype(),
                  strip.rows.row(to, lane) + (block.first + first) * size_of(to.dtype()));
      }
    });
  }

  const ForwardProblem& problem_;
  const AttentionOperands& in_;
  const AttentionShape& shape_;
  std::int64_t index_;
  AttentionTask task_;
  std::int64_t sample_, group_;
  ForwardScratch scratch_;
  std::size_t count_ = 0;
  RowPrefetch ahead_;
};

void forward_task(const ForwardProblem& problem, std::int64_t index, float* base) {
  ForwardTask task(problem, index, base);
  if (problem.probabilities) {
    task.run_unfused();
  } else {
    task.run();
  }
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(forward_task);

std::int64_t slot_floats(const AttentionShape& shape) {
  return ForwardScratch(shape, nullptr).size;
}
std::int64_t scratch_bytes(const CpuDevice& device, const ops::AttentionInputs& in) {
  return device.threads * slot_floats(AttentionShape(in)) *
         static_cast<std::int64_t>(sizeof(float));
}

void run_forward(const CpuDevice& device, const ForwardProblem& problem, const Tensor& scratch) {
  const std::int64_t floats = slot_floats(problem.in.shape);
  auto* base = reinterpret_cast<float*>(scratch.data());
  const auto run = HWY_DYNAMIC_DISPATCH(forward_task);
  for_each_task(device.threads, problem.pass.tasks(), [&](std::int64_t task, std::int64_t slot) {
    run(problem, task, base + slot * floats);
  });
}
}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionForward& op) {
  if (attends_in_tiles(device, op.in)) return amx_workspace_bytes(device, op);
  return scratch_bytes(device, op.in);
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionForward& op) {
  return scratch_bytes(device, op.in);
}

void execute(CpuDevice& device, const ops::AttentionForward& op, const Tensor& scratch) {
  if (attends_in_tiles(device, op.in)) {
    return amx_attention(device, op, attention_kernel(device.processor.target), scratch.data());
  }
  ForwardProblem problem(device, op.in, op.out);
  expect_statistic("lse", op.lse);
  problem.lse = op.lse;
  run_forward(device, problem, scratch);
}

void execute(CpuDevice& device, const ops::UnfusedAttentionForward& op, const Tensor& scratch) {
  ForwardProblem problem(device, op.in, op.out);
  problem.probabilities = HeadRows::of_probabilities(op.probabilities);
  run_forward(device, problem, scratch);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
