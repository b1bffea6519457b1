// Sums in double by blocks of a grid, and the few numbers that follow from them.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/reduce.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/segment_blocks.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// How many bytes ahead to prefetch.
constexpr std::int64_t kPrefetchBytes = 8192;
using DoubleSums = Sums<double>;
constexpr std::int64_t kTerms = DoubleSums::kVectors * DoubleSums::kLanes;

template <std::size_t... k>
HWY_INLINE void add_squares(const float* x, DoubleSums& sums, std::index_sequence<k...> /*all*/) {
  const DoubleSums::Tag d;
  const hn::Rebind<float, DoubleSums::Tag> narrow;
  const auto add = [&](const float* from, DoubleSums::Vector& sum) HWY_ATTR {
    const auto value = hn::PromoteTo(d, hn::LoadU(narrow, from));
    sum = hn::MulAdd(value, value, sum);
  };
  (add(x + k * DoubleSums::kLanes, sums.at<static_cast<int>(k)>()), ...);
}

HWY_INLINE double square_sum_of(const float* x, std::int64_t count) {
  const auto all = std::make_index_sequence<DoubleSums::kVectors>();
  DoubleSums sums;
  std::int64_t i = 0;
  for (; i + kTerms <= count; i += kTerms) {
    for (std::int64_t line = 0; line < 2; ++line) prefetch(x + i, kPrefetchBytes + 64 * line);
    add_squares(x + i, sums, all);
  }
  if (i < count) {
    float last[kTerms] = {};
    std::copy(x + i, x + count, last);
    add_squares(last, sums, all);
  }
  return sums.total();
}

HWY_INLINE double zeros_of(const float* x, std::int64_t count) {
  const FloatTag d;
  std::size_t zeros = 0;
  for_vectors(0, count, [&](std::int64_t i, auto lanes) HWY_ATTR {
    prefetch(x + i, kPrefetchBytes);
    const auto value = lanes.valid_or(lanes.load(x + i), hn::Set(d, 1.0F));
    zeros += hn::CountTrue(d, hn::Eq(value, hn::Zero(d)));
  });
  return static_cast<double>(zeros);
}

// results[group + i] = reduce(elements of the segment's i-th block, their count). A result depends
// only on its block's elements, so threads and cuts at block borders do not change it.
template <typename Op, typename Reduce>
void for_each_block(const CpuDevice& device, const Op& op, const Tensor& results,
                    const Reduce& reduce) {
  const float* from = dense<float>(op.x);
  double* to = dense<double>(results);
  const Blocks tasks = segment_tasks(op.table);
  parallel_for(device.threads, tasks.count(), [&](std::int64_t task) HWY_ATTR {
    for_each_segment(
        op.table, tasks, task,
        [&](const ops::Segment& segment, std::int64_t first, std::int64_t last) HWY_ATTR {
          for (std::int64_t block = first; block < last; ++block) {
            const ElementRange range = elements_of_blocks(segment, block, block + 1);
            to[segment.group + block] =
                reduce(from + range.begin - op.first, range.end - range.begin);
          }
        });
  });
}

void square_sum(const CpuDevice& device, const ops::SquareSumSegments& op) {
  for_each_block(device, op, op.sums, [](const float* x, std::int64_t count) HWY_ATTR {
    return square_sum_of(x, count);
  });
}
void zero_count(const CpuDevice& device, const ops::ZeroCountSegments& op) {
  for_each_block(device, op, op.counts,
                 [](const float* x, std::int64_t count) HWY_ATTR { return zeros_of(x, count); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(SquareSumSegments, square_sum)
PHALANX_KERNEL(ZeroCountSegments, zero_count)

void execute(CpuDevice& /*device*/, const ops::TotalSegments& op, const Tensor& /*scratch*/) {
  const double* x = dense<double>(op.x);
  for (const ops::Segment& segment : op.table.host) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < segment.count; ++i) sum += x[segment.begin + i];
    dense<double>(op.totals)[segment.group] = sum;
  }
}

void execute(CpuDevice& /*device*/, const ops::Total& op, const Tensor& /*scratch*/) {
  double sum = 0.0;
  for (const double value : op.x.span<double>()) sum += value;
  *dense<double>(op.sum) = sum;
}

void execute(CpuDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  double loss_scale = *dense<float>(op.loss_scale);
  if (op.checked) {
    for (const double loss : op.checked.span<double>()) {
      if (!std::isfinite(loss)) loss_scale = std::numeric_limits<double>::quiet_NaN();
    }
  }
  double average = 1.0 / loss_scale;
  if (op.tokens) {
    const double tokens = *dense<double>(op.tokens);
    average = tokens == 0.0 ? 0.0 : *dense<double>(op.expected_tokens) / tokens * average;
  }
  double squares = 0.0;
  for (const double sum : op.square_sums.span<double>()) squares += sum;
  const auto norm = std::sqrt(squares) * average;
  const double clipped = op.clip > 0.0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0;
  *dense<float>(op.norm) = static_cast<float>(norm);
  *dense<float>(op.factor) = static_cast<float>(average * clipped);
  // Tests the norm as reported: one beyond float's range counts as infinite.
  *dense<float>(op.skip) = std::isfinite(*dense<float>(op.norm)) ? 0.0F : 1.0F;
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
