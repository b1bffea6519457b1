// The backward of attention in AMX's tiles, from log-sum-exp and delta, as attention_backward.cc:
// what a task loads and stores. amx_attention_pieces-inl.h computes between.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/amx_attention_backward.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/amx_attention_backward.h"
#include "phalanx/ops/cpu/amx_attention_pieces-inl.h"
#include "phalanx/ops/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

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
        scratch_(shape_, problem.cut, base),
        pieces_(problem, pass, scratch_, ahead_) {}

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
      bool is_used = false;
      for (BackwardBlock& block : blocks) is_used |= add_group(group, block, sums);
      if (is_used) ++used_groups_;
      sums += sum_floats();
    });
    pieces_.finish();
    if (!pass_.keys) return;
    for (const BackwardBlock& block : blocks) store_key_gradients(block);
  }

  // Whether the group sees the block.
  bool add_group(const QueryGroup& group, BackwardBlock& block, float* sums) {
    GroupOfBlock added{.group = group, .block = &block, .spans = {}, .sums = sums};
    for (std::size_t s = 0; s < kGroupStrips; ++s) {
      const QueryStrip& strip = group.strips[s];
      if (strip.count == 0) continue;
      added.spans[s] = in_whole_steps(visible_span(in_.op.mask, strip.range, block.block));
    }
    if (!added.sees()) return false;
    if (!block.is_copied) copy_block(block);
    pieces_.add(added);
    return true;
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
  GradientPieces pieces_;
  std::int64_t used_groups_ = 0;
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
