// Biases of groups: the sums of rows for their gradient, and the dot products of rows for that of
// their factors.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/grouped_bias.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/groups.h"
#include "phalanx/ops/cpu/kernel_type.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Rows are added in order, in blocks whose sums are then added.
constexpr std::int64_t kSummedRows = 256;

// The sum of some rows of dy from `begin` on, of `count` columns.
template <typename T>
HWY_INLINE FloatVector sum_of_rows(const Rows<const T>& dy, const float* factors, const Range& rows,
                                   std::int64_t column, auto lanes) {
  auto sum = hn::Zero(FloatTag());
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const auto x = lanes.load(dy[r] + column);
    sum =
        factors == nullptr ? hn::Add(sum, x) : hn::MulAdd(hn::Set(FloatTag(), factors[r]), x, sum);
  }
  return sum;
}

template <typename T>
void gradient(const CpuDevice& device, const ops::GroupedBiasGradient& op,
              const RowGroups& groups) {
  const auto dbias = rows_of<float>(op.dbias);
  const Rows<const T> dy{op.dy.as<T>(), op.dy.strides[0]};
  const float* factors = dense<float>(op.factors);
  const Blocks columns = column_blocks(op.dy.shape[1]);
  const std::int64_t tasks = groups.count() * columns.count();
  for_each_task(device.threads, tasks, [&](std::int64_t task, std::int64_t /*slot*/) HWY_ATTR {
    const std::int64_t group = task / columns.count();
    const std::int64_t block = task % columns.count();
    const Blocks parts{groups.rows(group).count(), kSummedRows};
    for_vectors(columns.begin(block), columns.end(block), [&](std::int64_t i, auto lanes) HWY_ATTR {
      auto total = hn::Zero(FloatTag());
      for (std::int64_t part = 0; part < parts.count(); ++part) {
        total = hn::Add(total, sum_of_rows(dy, factors,
                                           piece(part, kSummedRows, groups.rows(group)), i, lanes));
      }
      float* to = dbias[group] + i;
      lanes.store(op.accumulate ? hn::Add(lanes.load(to), total) : total, to);
    });
  });
}

template <typename T>
void dots(const CpuDevice& device, const ops::GroupedBiasDots& op, const RowGroups& groups) {
  const auto bias = rows_of<T>(op.bias);
  const auto dy = rows_of<T>(op.dy);
  auto* to = dense<float>(op.dots);
  const Range rows = groups.all();
  const Blocks blocks = row_blocks(rows.count(), op.dy.shape[1]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
      const std::int64_t r = rows.begin + i;
      const T* row = dy[r];
      const T* of_group = bias[groups.group_of(r)];
      FloatSums sums;
      for_terms<FloatSums>(0, op.dy.shape[1], [&](std::int64_t j, auto lanes, auto part) HWY_ATTR {
        auto& sum = sums.at<decltype(part)::value>();
        sum = hn::MulAdd(lanes.load(row + j), lanes.load(of_group + j), sum);
      });
      to[r] += sums.total();
    }
  });
}

void grouped_bias_gradient(const CpuDevice& device, const ops::GroupedBiasGradient& op,
                           const RowGroups& groups) {
  with_storage(op.dy.dtype,
               [&](auto type) HWY_ATTR { gradient<decltype(type)>(device, op, groups); });
}
void grouped_bias_dots(const CpuDevice& device, const ops::GroupedBiasDots& op,
                       const RowGroups& groups) {
  with_storage(op.dy.dtype, [&](auto type) HWY_ATTR { dots<decltype(type)>(device, op, groups); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(grouped_bias_gradient);
HWY_EXPORT(grouped_bias_dots);

void execute(CpuDevice& device, const ops::GroupedBiasGradient& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(grouped_bias_gradient)
  (device, op, RowGroups(op.offsets, op.dy.shape[0]));
}
void execute(CpuDevice& device, const ops::GroupedBiasDots& op, const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(grouped_bias_dots)(device, op, RowGroups(op.offsets, op.dy.shape[0]));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
