// delta of attention's backward: a dot product for every query and head.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/attention_delta.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/attention_blocks.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"
#include "phalanx/ops/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The sum of a[i] b[i], in the order of FloatSums.
template <typename T>
HWY_INLINE float row_dot(const T* a, const T* b, std::int64_t width) {
  if constexpr (kHasPairs<T>) {
    return pair_dot(a, b, width);
  } else {
    FloatSums sums;
    for_terms<FloatSums>(0, width, [&](std::int64_t i, auto lanes, auto k) HWY_ATTR {
      auto& sum = sums.at<decltype(k)::value>();
      sum = hn::MulAdd(lanes.load(a + i), lanes.load(b + i), sum);
    });
    return sums.total();
  }
}

template <typename T>
void delta_rows(const CpuDevice& device, const ops::AttentionDelta& op) {
  const HeadRows out = HeadRows::of_heads(op.out);
  const HeadRows dout = HeadRows::of_heads(op.dout);
  const std::int64_t batch = op.out.shape[1];
  const std::int64_t heads = op.out.shape[2];
  const std::int64_t width = op.out.shape[3];
  // Of one query and sample, so that heads are neighbours.
  const Blocks blocks = row_blocks(op.out.shape[0] * batch, heads * width);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t task) HWY_ATTR {
    for (std::int64_t i = blocks.begin(task); i < blocks.end(task); ++i) {
      const std::int64_t sample = i % batch;
      const std::int64_t query = i / batch;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto* a = reinterpret_cast<const T*>(out.at(query, sample, head));
        const auto* b = reinterpret_cast<const T*>(dout.at(query, sample, head));
        row_statistic(op.delta, sample, head, query) = row_dot(a, b, width);
      }
    }
  });
}

void attention_delta(const CpuDevice& device, const ops::AttentionDelta& op) {
  expect_statistic("delta", op.delta);
  with_storage(op.out.dtype, [&](auto type) HWY_ATTR { delta_rows<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(AttentionDelta, attention_delta)

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
