// Activations of rows sorted by group.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/grouped_activation.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "phalanx/ops/cpu/activation_blocks-inl.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/groups.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The rows of all groups in blocks: body(r, group).
template <typename Body>
HWY_INLINE void for_grouped_rows(const CpuDevice& device, const RowGroups& groups,
                                 std::int64_t columns, const Body& body) {
  const Range rows = groups.all();
  const Blocks blocks = row_blocks(rows.count(), columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const std::int64_t begin = rows.begin + blocks.begin(block);
    const std::int64_t end = rows.begin + blocks.end(block);
    std::int64_t group = groups.group_of(begin);
    for (std::int64_t r = begin; r < end; ++r) {
      while (groups.rows(group).end <= r) ++group;
      body(r, group);
    }
  });
}

inline void scale(std::int64_t count, FloatBlock& x, float factor) {
  const auto by = hn::Set(FloatTag(), factor);
  transform(
      count, [&](FloatVector v) HWY_ATTR { return hn::Mul(v, by); }, x);
}

// sums += x y.
inline void add_products(std::int64_t count, const FloatBlock& x, const FloatBlock& y,
                         FloatSums& sums) {
  for_terms<FloatSums>(0, count, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    auto& sum = sums.at<decltype(part)::value>();
    sum = hn::MulAdd(lanes.load(x.data() + i), lanes.load(y.data() + i), sum);
  });
}

template <typename T>
void forward(const CpuDevice& device, const ops::GroupedActivationForward& op,
             const RowGroups& groups) {
  const std::int64_t columns = op.y.shape[1];
  const auto x = rows_of<T>(op.x);
  const auto y = rows_of<T>(op.y);
  const auto bias = rows_of<T>(op.bias);
  const float* p = dense<float>(op.probabilities);
  const BlockForm form = form_of(op.kind);
  for_grouped_rows(device, groups, columns, [&](std::int64_t r, std::int64_t group) HWY_ATTR {
    const T* of_group = op.bias ? bias[group] : nullptr;
    for (std::int64_t c = 0; c < columns; c += kColumnBlock) {
      const std::int64_t count = std::min(kColumnBlock, columns - c);
      FloatBlock block, up;
      read(x[r] + c, offset(of_group, c), count, block);
      form.value(count, block);
      if (op.gated) {
        read(x[r] + columns + c, offset(of_group, columns + c), count, up);
        multiply(count, block, up);
      }
      if (p != nullptr) scale(count, block, p[r]);
      write(block, count, y[r] + c);
    }
  });
}

template <typename T>
void backward(const CpuDevice& device, const ops::GroupedActivationBackward& op,
              const RowGroups& groups) {
  const std::int64_t columns = op.dy.shape[1];
  const auto x = rows_of<T>(op.x);
  const auto dy = rows_of<T>(op.dy);
  const auto dx = rows_of<T>(op.dx);
  const auto bias = rows_of<T>(op.bias);
  const float* p = dense<float>(op.probabilities);
  auto* dp = dense<float>(op.dprobabilities);
  const BlockForm form = form_of(op.kind);
  for_grouped_rows(device, groups, columns, [&](std::int64_t r, std::int64_t group) HWY_ATTR {
    const T* of_group = op.bias ? bias[group] : nullptr;
    FloatSums sums;
    for (std::int64_t c = 0; c < columns; c += kColumnBlock) {
      const std::int64_t count = std::min(kColumnBlock, columns - c);
      FloatBlock gate, slope, up, gradient;
      read(x[r] + c, offset(of_group, c), count, gate);
      read<T>(dy[r] + c, nullptr, count, gradient);
      // The value serves the gradients of p and of what is gated.
      if (op.gated || p != nullptr) {
        form.both(count, gate, slope);
      } else {
        slope = gate;
        form.derivative(count, slope);
      }
      if (op.gated) {
        read(x[r] + columns + c, offset(of_group, columns + c), count, up);
        multiply(count, slope, up);
      }
      if (p != nullptr) {
        FloatBlock value = gate;
        if (op.gated) multiply(count, value, up);
        add_products(count, value, gradient, sums);
        scale(count, gradient, p[r]);
      }
      multiply(count, slope, gradient);
      write(slope, count, dx[r] + c);
      if (op.gated) {
        multiply(count, gate, gradient);
        write(gate, count, dx[r] + columns + c);
      }
    }
    if (p != nullptr) dp[r] = sums.total();
  });
}

void grouped_activation_forward(const CpuDevice& device, const ops::GroupedActivationForward& op,
                                const RowGroups& groups) {
  with_storage(op.x.dtype,
               [&](auto type) HWY_ATTR { forward<decltype(type)>(device, op, groups); });
}
void grouped_activation_backward(const CpuDevice& device, const ops::GroupedActivationBackward& op,
                                 const RowGroups& groups) {
  with_storage(op.x.dtype,
               [&](auto type) HWY_ATTR { backward<decltype(type)>(device, op, groups); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(grouped_activation_forward);
HWY_EXPORT(grouped_activation_backward);

void execute(CpuDevice& device, const ops::GroupedActivationForward& op,
             const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(grouped_activation_forward)
  (device, op, RowGroups(op.offsets, op.x.shape[0]));
}
void execute(CpuDevice& device, const ops::GroupedActivationBackward& op,
             const Tensor& /*scratch*/) {
  HWY_DYNAMIC_DISPATCH(grouped_activation_backward)
  (device, op, RowGroups(op.offsets, op.x.shape[0]));
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
