// Joins two parts of attention: what each weighs, some rows of a head in vectors; then their
// outputs, row by row.

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_merge.cc"
#include "phalanx/ops/cpu/targets.h"
// Highway's order: targets, then foreach_target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "phalanx/ops/cpu/attention_scores-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"

#ifndef PHALANX_OPS_CPU_ATTENTION_MERGE_ONCE
#define PHALANX_OPS_CPU_ATTENTION_MERGE_ONCE
namespace phalanx::cpu {

inline constexpr std::int64_t kMergeRows = 64;  // of a task: queries of a head

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {
namespace {

// 2^((l - largest) log2(e)); 0 for -infinity.
HWY_INLINE FloatVector power_of(FloatVector lse, FloatVector largest) {
  const FloatTag d;
  const auto power = exp_two(hn::Mul(hn::Sub(lse, largest), hn::Set(d, kLog2E)));
  return hn::IfThenZeroElse(hn::Eq(lse, hn::Set(d, -kInfinity)), power);
}

struct MergeRows {
  alignas(64) float lse[kMergeRows];
  alignas(64) float part_lse[kMergeRows];
  alignas(64) float joined[kMergeRows];
  alignas(64) float weight[kMergeRows];
  alignas(64) float part_weight[kMergeRows];

  // The weights are those of e^l / (e^l + e^l'), which loses less than e^(l - L) of a rounded L.
  void join() {
    const FloatTag d;
    for (std::int64_t i = 0; i < kMergeRows; i += lane_count()) {
      const auto l = load(lse + i);
      const auto part = load(part_lse + i);
      const auto largest = hn::IfThenElse(hn::Gt(part, l), part, l);
      const auto power = power_of(l, largest);
      const auto part_power = power_of(part, largest);
      const auto sum = hn::Add(power, part_power);
      const auto nothing = hn::Eq(sum, hn::Zero(d));
      const auto inverse = hn::IfThenZeroElse(nothing, hn::Div(hn::Set(d, 1.0F), sum));
      store(hn::IfThenElse(nothing, hn::Set(d, -kInfinity), hn::Add(largest, logarithm(sum))),
            joined + i);
      store(hn::Mul(power, inverse), weight + i);
      store(hn::Mul(part_power, inverse), part_weight + i);
    }
  }
};

void merge_row(const MergeRows& rows, std::int64_t i, std::int64_t width, float* out,
               const float* part) {
  const bool has_own = rows.lse[i] != -kInfinity;
  const bool has_part = rows.part_lse[i] != -kInfinity;
  const auto bytes = static_cast<std::size_t>(width) * sizeof(float);
  if (!has_own && !has_part) return fill(out, width, 0.0F);
  if (!has_part) return;
  if (!has_own) {
    std::memcpy(out, part, bytes);
    return;
  }
  const auto weight = hn::Set(FloatTag(), rows.weight[i]);
  const auto part_weight = hn::Set(FloatTag(), rows.part_weight[i]);
  for_vectors(0, width, [=](std::int64_t at, auto lanes) HWY_ATTR {
    const auto added = hn::Mul(part_weight, lanes.load(part + at));
    lanes.store(hn::MulAdd(weight, lanes.load(out + at), added), out + at);
  });
}

// Queries [first, last) of a head.
void merge_task(const ops::AttentionMerge& op, std::int64_t sample, std::int64_t head,
                std::int64_t first, std::int64_t last) {
  const HeadRows out = HeadRows::of_heads(op.out);
  const HeadRows part = HeadRows::of_heads(op.part_out);
  MergeRows rows;
  fill(rows.lse, kMergeRows, 0.0F);
  fill(rows.part_lse, kMergeRows, 0.0F);
  for (std::int64_t i = 0; i < last - first; ++i) {
    rows.lse[i] = row_statistic(op.lse, sample, head, first + i);
    rows.part_lse[i] = row_statistic(op.part_lse, sample, head, first + i);
  }
  rows.join();
  for (std::int64_t i = 0; i < last - first; ++i) {
    merge_row(rows, i, op.out.shape[3], reinterpret_cast<float*>(out.at(first + i, sample, head)),
              reinterpret_cast<const float*>(part.at(first + i, sample, head)));
    row_statistic(op.lse, sample, head, first + i) = rows.joined[i];
  }
}

}  // namespace
}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {
namespace {
HWY_EXPORT(merge_task);
}

void execute(CpuDevice& device, const ops::AttentionMerge& op, const Tensor& /*scratch*/) {
  expect_statistic("out", op.out);
  expect_statistic("lse", op.lse);
  expect_statistic("part_lse", op.part_lse);
  const Blocks blocks{op.out.shape[0], kMergeRows};
  const std::int64_t heads = op.out.shape[2];
  const auto run = HWY_DYNAMIC_DISPATCH(merge_task);
  parallel_for(device.threads, blocks.count() * op.out.shape[1] * heads, [&](std::int64_t task) {
    const std::int64_t block = task / heads / op.out.shape[1];
    run(op, task / heads % op.out.shape[1], task % heads, blocks.begin(block), blocks.end(block));
  });
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
