// The backward of attention, fused and unfused. The fused op recomputes probabilities from
// log-sum-exp; the unfused op reads them. Then dv = p' dout, dp = dout v', ds = p (dp - delta), dk
// = ds' q, dq = ds k. A task takes blocks of keys in order, each against all its strips; see
// attention_cut.h.

#include <algorithm>
#include <cstdint>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_backward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/amx_attention.h"
#include "phalanx/ops/cpu/attention_cut.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_ATTENTION_BACKWARD_ONCE
#define PHALANX_OPS_CPU_ATTENTION_BACKWARD_ONCE
namespace phalanx::cpu {

// The operands that the fused and the unfused op share.
struct AttentionGradients {
  const ops::AttentionInputs& in;
  Tensor dquery, dkey, dvalue, dbias, dout;
  Tensor lse;            // of the fused op: probabilities are recomputed from it
  Tensor probabilities;  // of the unfused op
  Tensor delta;          // [b, heads, sq] f32
  bool adds_to_dquery = false;
};

// Every sample adds to the same dbias, so a bias gradient takes the samples in order.
inline BackwardCut backward_cut(const AttentionShape& shape, bool bias_gradient, int threads) {
  const std::int64_t strip_floats = shape.stride * kStripRows;
  return {shape.groups * (bias_gradient ? 1 : shape.batch), shape.strips(), shape.keys,
          strip_floats * static_cast<std::int64_t>(sizeof(float)), threads};
}

struct BackwardScratch {
  BackwardScratch(const AttentionShape& shape, const BackwardCut& cut, float* base) {
    FloatArena arena(base);
    keys = arena.take(kBlockKeys * shape.stride);
    values = arena.take(kBlockKeys * shape.stride);
    dkeys = arena.take(kBlockKeys * shape.stride);
    dvalues = arena.take(kBlockKeys * shape.stride);
    query_rows = arena.take(kStripRows * shape.stride);
    query_lanes = arena.take(kStripRows * shape.stride);
    dout_rows = arena.take(kStripRows * shape.stride);
    dout_lanes = arena.take(kStripRows * shape.stride);
    scores = arena.take(kScoreKeys * kStripRows);
    dscores = arena.take(kScoreKeys * kStripRows);
    lse = arena.take(kStripRows);
    delta = arena.take(kStripRows);
    factor = arena.take(kStripRows);
    columns.take(arena);
    key_pairs = arena.take(kBlockKeys / 2 * shape.stride);
    dscore_pairs = arena.take(kBlockKeys / 2 * kStripRows);
    query_pairs = arena.take(kStripRows / 2 * shape.stride);
    dout_pairs = arena.take(kStripRows / 2 * shape.stride);
    const std::int64_t strips =
        cut.whole_heads ? shape.strips() : std::min(shape.strips(), kMostStrips);
    row_sums = arena.take(strips * shape.stride * kStripRows);
    size = arena.used();
  }

  float *keys, *values;             // [256][stride]
  float *dkeys, *dvalues;           // [256][stride]
  float *query_rows, *dout_rows;    // [48][stride]; the query is times query_factor()
  float *query_lanes, *dout_lanes;  // [groups of the width][48]
  float *scores, *dscores;          // [256][48]
  float *lse, *delta, *factor;      // [48]
  ColumnScratch columns;
  // Pairs of neighbouring rows, for products of bf16.
  float *key_pairs, *dscore_pairs, *query_pairs, *dout_pairs;
  float* row_sums;  // dquery lanes or delta of every strip of a task
  std::int64_t size;
};

struct BackwardProblem {
  BackwardProblem(const CpuDevice& device, const AttentionGradients& gradients)
      : op(gradients),
        in(gradients.in, device.products),
        cut(backward_cut(in.shape, gradients.dbias.defined(), device.threads)),
        threads(device.threads),
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
  int threads;
  HeadRows dquery, dkey, dvalue, dout;
  std::optional<HeadRows> probabilities, dbias;
};

// One walk over strips and blocks of some samples, and which results it computes.
struct BackwardPass {
  AttentionPass cut;
  std::int64_t first_sample = 0;
  bool keys = false;     // computes dkey, dvalue and dbias
  bool queries = false;  // computes dquery
  bool delta = false;    // computes only delta, for the unfused op
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

class BackwardTask {
 public:
  BackwardTask(const BackwardProblem& problem, const BackwardPass& pass, std::int64_t index,
               float* base)
      : problem_(problem),
        pass_(pass),
        in_(problem.in),
        shape_(problem.in.shape),
        index_(index),
        task_(pass.cut.task(index)),
        sample_(pass.first_sample + task_.head / shape_.groups),
        group_(task_.head % shape_.groups),
        scratch_(shape_, problem.cut, base) {}

  void run() {
    std::int64_t strips = 0;
    task_.strips.for_each(shape_.strips(), [&](std::int64_t, std::int64_t) { ++strips; });
    fill(scratch_.row_sums, strips * sum_floats(), 0.0F);
    const std::int64_t size = pass_.cut.block_keys;
    task_.blocks.for_each(shape_.blocks(size), [&](std::int64_t b, std::int64_t next) HWY_ATTR {
      fetch_keys(b * size, next * size);
      add_block(load_key_block(in_.op, shape_, sample_, b * size, size));
    });
    float* sums = scratch_.row_sums;
    task_.strips.for_each(shape_.strips(), [&](std::int64_t i, std::int64_t) HWY_ATTR {
      const QueryStrip strip = load_query_strip(in_.op, shape_, sample_, group_, i);
      if (pass_.queries) store_dquery(strip, sums);
      if (pass_.delta) store_delta(strip, sums);
      sums += sum_floats();
    });
  }

 private:
  // The size of a strip's sum over all keys: dquery in lanes, or delta.
  std::int64_t sum_floats() const {
    if (pass_.delta) return kStripRows;
    return pass_.queries ? kStripRows * shape_.stride : 0;
  }

  // Fetches what comes after the block at key `first`: the next block, or the first block of this
  // thread's likely next task; and the block's own results.
  void fetch_keys(std::int64_t first, std::int64_t next) {
    const std::int64_t size = pass_.cut.block_keys;
    std::int64_t sample = sample_;
    std::int64_t group = group_;
    if (next >= shape_.keys) {
      if (index_ + problem_.threads >= pass_.cut.tasks()) return;
      const AttentionTask task = pass_.cut.task(index_ + problem_.threads);
      sample = pass_.first_sample + task.head / shape_.groups;
      group = task.head % shape_.groups;
      next = task.blocks.next(0, shape_.blocks(size)) * size;
    }
    ahead_.add_keys(in_.key, shape_, sample, group, next, size);
    ahead_.add_keys(in_.value, shape_, sample, group, next, size);
    if (pass_.keys) {
      ahead_.add_keys(problem_.dkey, shape_, sample_, group_, first, size);
      ahead_.add_keys(problem_.dvalue, shape_, sample_, group_, first, size);
    }
  }

  void add_block(const KeyBlock& block) {
    const std::int64_t rows = round_up(block.count, kKeyGroup);
    if (pass_.keys) {
      fill(scratch_.dkeys, rows * shape_.stride, 0.0F);
      fill(scratch_.dvalues, rows * shape_.stride, 0.0F);
    }
    bool copied = false;
    float* sums = scratch_.row_sums;
    task_.strips.for_each(shape_.strips(), [&](std::int64_t i, std::int64_t next) HWY_ATTR {
      float* row_sums = sums;
      sums += sum_floats();
      const QueryStrip strip = load_query_strip(in_.op, shape_, sample_, group_, i);
      const KeySpan span = visible_span(in_.op.mask, strip.range, block);
      if (span.empty()) return;
      if (!copied) {
        load_key_rows(block, in_.key, sample_, group_, shape_.width, scratch_.keys, shape_.stride);
        load_key_rows(block, in_.value, sample_, group_, shape_.width, scratch_.values,
                      shape_.stride);
        if (in_.pairs != nullptr) {
          pair_rows(scratch_.keys, rows, shape_.stride, scratch_.key_pairs);
          narrow_rows(scratch_.keys, rows, shape_.stride);
          narrow_rows(scratch_.values, rows, shape_.stride);
        }
        copied = true;
      }
      load_strip(strip);
      if (next < shape_.strips()) {
        ahead_.add_strip(in_.query, shape_, sample_, group_, next);
        ahead_.add_strip(problem_.dout, shape_, sample_, group_, next);
      }
      if (pass_.delta) {
        add_delta(strip, block, span, row_sums);
      } else {
        add_gradients(strip, block, span, row_sums);
      }
    });
    if (pass_.keys) store_key_gradients(block);
  }

  void load_strip(const QueryStrip& strip) {
    const std::int64_t stride = shape_.stride;
    const std::int64_t lanes = lanes_of(strip);
    const std::int64_t groups = in_.groups_of(stride);
    load_strip_rows(strip, in_.query, shape_.width, query_factor(in_), scratch_.query_rows, stride);
    load_strip_rows(strip, problem_.dout, shape_.width, 1.0F, scratch_.dout_rows, stride);
    if (in_.pairs != nullptr) {
      pair_rows(scratch_.query_rows, lanes, stride, scratch_.query_pairs);
      pair_rows(scratch_.dout_rows, lanes, stride, scratch_.dout_pairs);
      narrow_rows(scratch_.query_rows, lanes, stride);
      narrow_rows(scratch_.dout_rows, lanes, stride);
    }
    transpose(scratch_.query_rows, groups, lanes, groups, scratch_.query_lanes, kStripRows);
    transpose(scratch_.dout_rows, groups, lanes, groups, scratch_.dout_lanes, kStripRows);
    if (pass_.delta) return;
    fill(scratch_.lse, kStripRows, 0.0F);
    fill(scratch_.delta, kStripRows, 0.0F);
    for (int lane = 0; lane < strip.count; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      scratch_.delta[lane] =
          row_statistic(problem_.op.delta, sample_, strip.head[i], strip.query[i]);
      if (!problem_.op.lse) continue;
      const float lse = row_statistic(problem_.op.lse, sample_, strip.head[i], strip.query[i]);
      // A row that sees no key: every exp(score - infinity) is 0.
      scratch_.lse[lane] = lse == -kInfinity ? kInfinity : lse * kLog2E;
    }
  }

  // Writes the probabilities of a span to scratch.scores.
  void make_probabilities(const QueryStrip& strip, const KeyBlock& block, const KeySpan& span) {
    if (problem_.probabilities) {
      for_pieces(span, [&](int first, int keys) HWY_ATTR {
        load_columns(strip, block, *problem_.probabilities, first, keys, 1.0F,
                     scratch_.columns.rows, scratch_.scores + first * kStripRows);
      });
      return;
    }
    make_scores(in_, strip, block, span, scratch_.keys, scratch_.query_lanes, scratch_.columns,
                scratch_.scores, ahead_);
    for (std::int64_t lane = 0; lane < lanes_of(strip); lane += lane_count()) {
      const auto lse = load(scratch_.lse + lane);
      for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
        float* score = scratch_.scores + at + lane;
        store(exp_two(hn::Sub(load(score), lse)), score);
      });
    }
  }

  // Writes dout v' of a span to scratch.dscores.
  void multiply_values(const QueryStrip& strip, const KeySpan& span) {
    const std::int64_t stride = in_.groups_of(shape_.stride);
    product<Left::kRows, Into::kOverwrite>(
        in_.pairs, span.count(), lanes_of(strip), in_.groups_of(shape_.width),
        {scratch_.values + span.first * stride, stride}, {scratch_.dout_lanes, kStripRows},
        scratch_.dscores + span.first * kStripRows, kStripRows, nullptr, ahead_);
  }

  void add_gradients(const QueryStrip& strip, const KeyBlock& block, const KeySpan& span,
                     float* dquery) {
    make_probabilities(strip, block, span);
    multiply_values(strip, span);
    differentiate_softmax(strip, block, span);
    if (pass_.keys && problem_.dbias) add_bias_gradient(strip, block, span);
    float* probabilities = scratch_.scores + span.first * kStripRows;
    float* dscores = scratch_.dscores + span.first * kStripRows;
    const bool pairs = in_.pairs != nullptr;
    if (pass_.queries) {
      if (pairs) pair_rows(dscores, span.count(), kStripRows, scratch_.dscore_pairs);
      const float* keys = pairs ? scratch_.key_pairs : scratch_.keys;
      product<Left::kColumns, Into::kAdd>(
          in_.pairs, round_up(shape_.width, kKeyGroup), lanes_of(strip),
          in_.groups_of(span.count()),
          {keys + in_.groups_of(span.first) * shape_.stride, shape_.stride},
          {pairs ? scratch_.dscore_pairs : dscores, kStripRows}, dquery, kStripRows, nullptr,
          ahead_);
    }
    if (!pass_.keys) return;
    if (pairs) {
      narrow_rows(probabilities, span.count(), kStripRows);
      narrow_rows(dscores, span.count(), kStripRows);
    }
    const auto add = [&](const float* left, const float* right, float* sums) HWY_ATTR {
      product<Left::kRows, Into::kAdd>(
          in_.pairs, span.count(), round_up(shape_.width, lane_count()), in_.groups_of(strip.count),
          {left, in_.groups_of(kStripRows)}, {right, shape_.stride},
          sums + span.first * shape_.stride, shape_.stride, nullptr, ahead_);
    };
    add(probabilities, pairs ? scratch_.dout_pairs : scratch_.dout_rows, scratch_.dvalues);
    add(dscores, pairs ? scratch_.query_pairs : scratch_.query_rows, scratch_.dkeys);
  }

  // Turns scratch.dscores from dout v' into gradients of the scores, and the probabilities into
  // those after dropout.
  void differentiate_softmax(const QueryStrip& strip, const KeyBlock& block, const KeySpan& span) {
    std::optional<LaneDropout> dropout;
    if (in_.drops()) dropout.emplace(in_.op.dropout, strip);
    const auto factor = hn::Set(FloatTag(), in_.kept_factor);
    const std::int64_t lanes = lanes_of(strip);
    for_keys(span, [&](std::size_t key, std::int64_t at) HWY_ATTR {
      const std::uint32_t* words = dropout ? dropout->words(block.position[key]) : nullptr;
      for (std::int64_t lane = 0; lane < lanes; lane += lane_count()) {
        const auto probability = load(scratch_.scores + at + lane);
        const auto delta = load(scratch_.delta + lane);
        auto gradient = load(scratch_.dscores + at + lane);
        if (dropout) {
          const auto dropped = dropout->dropped(words, lane);
          gradient = hn::IfThenZeroElse(dropped, hn::Mul(factor, gradient));
          store(hn::IfThenZeroElse(dropped, probability), scratch_.scores + at + lane);
        }
        store(hn::Mul(probability, hn::Sub(gradient, delta)), scratch_.dscores + at + lane);
      }
    });
  }

  // dbias[head, query, key] += the gradients of a span.
  void add_bias_gradient(const QueryStrip& strip, const KeyBlock& block, const KeySpan& span) {
    const float* rows = scratch_.columns.rows;
    for_pieces(span, [&](int first, int keys) HWY_ATTR {
      make_columns(scratch_.dscores + first * kStripRows, strip, keys, scratch_.columns.rows);
      const std::int64_t width = std::min(keys, block.count - first);
      for (int lane = 0; lane < strip.count; ++lane) {
        auto* to = reinterpret_cast<float*>(strip.row(*problem_.dbias, lane)) + block.first + first;
        for_vectors(0, width, [&](std::int64_t i, auto part) HWY_ATTR {
          part.store(hn::Add(part.load(to + i), part.load(rows + lane * kColumnPiece + i)), to + i);
        });
      }
    });
  }

  // delta = sum over keys of p' (dout v'), without the factor of kept probabilities.
  void add_delta(const QueryStrip& strip, const KeyBlock& block, const KeySpan& span,
                 float* delta) {
    make_probabilities(strip, block, span);
    if (in_.drops()) drop(in_.op.dropout, strip, block, span, scratch_.scores);
    multiply_values(strip, span);
    for (std::int64_t lane = 0; lane < lanes_of(strip); lane += lane_count()) {
      auto sum = load(delta + lane);
      for_keys(span, [&](std::size_t, std::int64_t at) HWY_ATTR {
        sum =
            hn::MulAdd(load(scratch_.scores + at + lane), load(scratch_.dscores + at + lane), sum);
      });
      store(sum, delta + lane);
    }
  }

  void store_delta(const QueryStrip& strip, const float* delta) {
    for (int lane = 0; lane < strip.count; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      row_statistic(problem_.op.delta, sample_, strip.head[i], strip.query[i]) =
          in_.kept_factor * delta[lane];
    }
  }

  void store_dquery(const QueryStrip& strip, const float* dquery) {
    fill(scratch_.factor, kStripRows, static_cast<float>(in_.op.scale));
    store_strip_lanes(dquery, scratch_.factor, strip, problem_.dquery, shape_.width,
                      scratch_.query_rows, shape_.stride, problem_.op.adds_to_dquery);
  }

  // Multiplies the sums by the factors that the products left out.
  void store_key_gradients(const KeyBlock& block) {
    // Queries that carry the scale also carry log2(e).
    const float dkey_factor = in_.pairs == nullptr ? kLn2 : static_cast<float>(in_.op.scale);
    for (std::int64_t key = 0; key < block.count; ++key) {
      const auto store_sums = [&](const float* sums, float factor, const HeadRows& to) HWY_ATTR {
        store_row(sums + key * shape_.stride, shape_.width, factor, to.dtype(),
                  to.at(block.first + key, sample_, group_));
      };
      store_sums(scratch_.dkeys, dkey_factor, problem_.dkey);
      store_sums(scratch_.dvalues, in_.kept_factor, problem_.dvalue);
    }
  }

  const BackwardProblem& problem_;
  const BackwardPass& pass_;
  const AttentionOperands& in_;
  const AttentionShape& shape_;
  std::int64_t index_;
  AttentionTask task_;
  std::int64_t sample_, group_;
  BackwardScratch scratch_;
  RowPrefetch ahead_;
};

void backward_task(const BackwardProblem& problem, const BackwardPass& pass, std::int64_t index,
                   float* base) {
  BackwardTask(problem, pass, index, base).run();
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(backward_task);

std::int64_t scratch_bytes(const CpuDevice& device, const ops::AttentionInputs& in,
                           bool bias_gradient) {
  const AttentionShape shape(in);
  const BackwardCut cut = backward_cut(shape, bias_gradient, device.threads);
  return device.threads * BackwardScratch(shape, cut, nullptr).size *
         static_cast<std::int64_t>(sizeof(float));
}

std::int64_t delta_bytes(const AttentionShape& shape) {
  return round_up(
      shape.batch * shape.heads * shape.queries * static_cast<std::int64_t>(sizeof(float)),
      kArenaAlignment);
}

void run_pass(const CpuDevice& device, const BackwardProblem& problem, const BackwardPass& pass,
              std::byte* scratch) {
  const std::int64_t floats = BackwardScratch(problem.in.shape, problem.cut, nullptr).size;
  auto* base = reinterpret_cast<float*>(scratch);
  const auto run = HWY_DYNAMIC_DISPATCH(backward_task);
  for_each_task(device.threads, pass.cut.tasks(), [&](std::int64_t task, std::int64_t slot) {
    run(problem, pass, task, base + slot * floats);
  });
}

void run_backward(const CpuDevice& device, const BackwardProblem& problem, std::byte* scratch) {
  const AttentionShape& shape = problem.in.shape;
  const BackwardCut& cut = problem.cut;
  const std::int64_t samples_at_once = cut.keys.heads / shape.groups;
  for (std::int64_t sample = 0; sample < shape.batch; sample += samples_at_once) {
    BackwardPass keys{.cut = cut.keys, .first_sample = sample, .keys = true};
    keys.queries = cut.whole_heads;
    run_pass(device, problem, keys, scratch);
    if (cut.whole_heads) continue;
    run_pass(device, problem, {.cut = cut.queries, .first_sample = sample, .queries = true},
             scratch);
  }
}
}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionBackward& op) {
  if (attends_in_tiles(device, op.in)) return amx_workspace_bytes(device, op);
  return scratch_bytes(device, op.in, op.dbias.defined());
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionBackward& op) {
  return delta_bytes(AttentionShape(op.in)) + scratch_bytes(device, op.in, op.dbias.defined());
}

void execute(CpuDevice& device, const ops::AttentionBackward& op, const Tensor& scratch) {
  if (attends_in_tiles(device, op.in)) {
    return amx_attention(device, op, attention_kernel(device.processor.target), scratch.data());
  }
  const AttentionGradients gradients{.in = op.in,
                                     .dquery = op.dquery,
                                     .dkey = op.dkey,
                                     .dvalue = op.dvalue,
                                     .dbias = op.dbias,
                                     .dout = op.dout,
                                     .lse = op.lse,
                                     .probabilities = {},
                                     .delta = op.delta,
                                     .adds_to_dquery = op.adds_to_dquery};
  run_backward(device, BackwardProblem(device, gradients), scratch.data());
}

void execute(CpuDevice& device, const ops::UnfusedAttentionBackward& op, const Tensor& scratch) {
  const AttentionShape shape(op.in);
  const Tensor delta = dense_tensor(*scratch.arena, scratch.offset, DType::kF32,
                                    {shape.batch, shape.heads, shape.queries});
  std::byte* rest = scratch.data() + delta_bytes(shape);
  const AttentionGradients gradients{.in = op.in,
                                     .dquery = op.dquery,
                                     .dkey = op.dkey,
                                     .dvalue = op.dvalue,
                                     .dbias = op.dbias,
                                     .dout = op.dout,
                                     .lse = {},
                                     .probabilities = op.probabilities,
                                     .delta = delta};
  const BackwardProblem problem(device, gradients);
  const BackwardPass deltas{
      .cut = strip_pass(shape.batch * shape.groups, shape.strips(), device.threads), .delta = true};
  run_pass(device, problem, deltas, rest);
  run_backward(device, problem, rest);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
