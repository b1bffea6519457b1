// What the kernels of norms share. Included once per target.

#include <array>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_NORM_INL_H_
#undef PHALANX_OPS_CPU_NORM_INL_H_
#else
#define PHALANX_OPS_CPU_NORM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// What a normalised row is multiplied by. Adding -0 leaves every number as it is.
template <typename T>
struct NormWeight {
  const T* data;
  float offset;

  NormWeight(const Tensor& weight, bool zero_centred)
      : data(dense<T>(weight)), offset(zero_centred ? 1.0F : -0.0F) {}

  template <typename Lanes>
  HWY_INLINE FloatVector load(Lanes lanes, std::int64_t i) const {
    return hn::Add(lanes.load(data + i), hn::Set(FloatTag(), offset));
  }
};

// dx = gradient, or round(gradient) + residual.
template <typename Stream, typename Lanes>
HWY_INLINE void store_gradient(Lanes lanes, FloatVector gradient, const Stream* residual,
                               Stream* dx, std::int64_t i) {
  if (residual == nullptr) {
    lanes.store(gradient, dx + i);
  } else {
    lanes.store(hn::Add(round_to<Stream>(gradient), lanes.load(residual + i)), dx + i);
  }
}

// Sums within a row that are few enough for several rows in registers.
using RowTerms = Sums<float, 16>;

// Rows whose sums fit in registers; they are added to the column sums one after the other.
inline constexpr int kRowsTogether = kMaxLanes >= 16 ? 4 : 2;

// Column sums over all rows from those of every block of rows, which lie one behind the other in
// `partial`; they are added in the order of the blocks.
template <std::size_t kSums>
HWY_INLINE void join_blocks(const CpuDevice& device, const float* partial, std::int64_t blocks,
                            std::int64_t columns, const std::array<float*, kSums>& sums) {
  const Blocks groups = column_blocks(columns);
  parallel_for(device.threads, groups.count(), [&](std::int64_t group) HWY_ATTR {
    for_vectors(groups.begin(group), groups.end(group), [&](std::int64_t i, auto lanes) HWY_ATTR {
      for (std::size_t k = 0; k < kSums; ++k) {
        const float* from = partial + static_cast<std::int64_t>(k) * columns + i;
        auto sum = hn::Zero(FloatTag());
        for (std::int64_t block = 0; block < blocks; ++block) {
          sum = hn::Add(sum, lanes.load(from));
          from += static_cast<std::int64_t>(kSums) * columns;
        }
        lanes.store(sum, sums[k] + i);
      }
    });
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
