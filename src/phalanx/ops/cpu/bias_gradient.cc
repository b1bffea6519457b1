// Column sums through partial sums per block of rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/bias_gradient.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// sum[i] += the rows [begin, end) of dy, four at a time to move the sums less often.
template <typename T>
HWY_INLINE void add_rows(const Rows<T>& dy, std::int64_t begin, std::int64_t end, float* sum,
                         std::int64_t columns) {
  std::int64_t r = begin;
  for (; r + 4 <= end; r += 4) {
    for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto first = hn::Add(lanes.load(dy[r] + i), lanes.load(dy[r + 1] + i));
      const auto second = hn::Add(lanes.load(dy[r + 2] + i), lanes.load(dy[r + 3] + i));
      lanes.store(hn::Add(lanes.load(sum + i), hn::Add(first, second)), sum + i);
    });
  }
  for (; r < end; ++r) {
    for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(sum + i), lanes.load(dy[r] + i)), sum + i);
    });
  }
}

template <typename T>
void column_sums(const CpuDevice& device, const ops::BiasGradient& op, float* partial) {
  const std::int64_t columns = op.dy.shape[1];
  const auto dy = rows_of<T>(op.dy);
  float* dbias = dense<float>(op.dbias);
  const Blocks blocks = partial_sum_blocks(op.dy.shape[0]);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    float* sum = partial + block * columns;
    std::fill(sum, sum + columns, 0.0F);
    add_rows(dy, blocks.begin(block), blocks.end(block), sum, columns);
  });
  const Blocks column_groups = column_blocks(columns);
  parallel_for(device.threads, column_groups.count(), [&](std::int64_t group) HWY_ATTR {
    for_vectors(column_groups.begin(group), column_groups.end(group),
                [&](std::int64_t i, auto lanes) HWY_ATTR {
                  auto sum = hn::Zero(FloatTag());
                  for (std::int64_t block = 0; block < blocks.count(); ++block) {
                    sum = hn::Add(sum, lanes.load(partial + block * columns + i));
                  }
                  lanes.store(hn::Add(lanes.load(dbias + i), sum), dbias + i);
                });
  });
}

void bias_gradient(const CpuDevice& device, const ops::BiasGradient& op, float* partial) {
  with_storage(op.dy.dtype,
               [&](auto type) HWY_ATTR { column_sums<decltype(type)>(device, op, partial); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(bias_gradient);

std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::BiasGradient& op) {
  return partial_sum_blocks(op.dy.shape[0]).count() * op.dy.shape[1] * size_of(DType::kF32);
}

void execute(CpuDevice& device, const ops::BiasGradient& op, const Tensor& scratch) {
  HWY_DYNAMIC_DISPATCH(bias_gradient)(device, op, reinterpret_cast<float*>(scratch.data()));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
