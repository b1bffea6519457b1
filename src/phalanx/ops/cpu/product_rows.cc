#include "phalanx/ops/cpu/product_rows.h"

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/product_rows.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

void widen_all_rows(const RowView& from, std::int64_t rows, std::int64_t columns, float* to,
                    std::int64_t to_stride) {
  with_storage(from.dtype, [&](auto type) HWY_ATTR {
    const auto* source = reinterpret_cast<const decltype(type)*>(from.data);
    for (std::int64_t r = 0; r < rows; ++r) {
      convert(source + r * from.stride, to + r * to_stride, columns);
    }
  });
}

template <typename T, typename Bias>
HWY_INLINE void finish(const FinishedRows& work, std::int64_t rows, std::int64_t columns) {
  const auto* bias = reinterpret_cast<const Bias*>(work.bias);
  auto* to = reinterpret_cast<T*>(work.to);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* tile = work.tile + r * work.tile_stride;
    const float* addend = work.addend == nullptr ? nullptr : work.addend + r * work.addend_stride;
    for_vectors(0, columns, [=](std::int64_t i, auto lanes) HWY_ATTR {
      auto value = lanes.load(tile + i);
      if (addend != nullptr) value = hn::Add(value, lanes.load(addend + i));
      if (bias != nullptr) value = hn::Add(value, lanes.load(bias + i));
      lanes.store(value, to + r * work.to_stride + i);
    });
  }
}

void finish_all_rows(const FinishedRows& work, std::int64_t rows, std::int64_t columns) {
  with_storage(work.to_dtype, [&](auto type) HWY_ATTR {
    with_storage(work.bias_dtype, [&](auto bias_type) HWY_ATTR {
      finish<decltype(type), decltype(bias_type)>(work, rows, columns);
    });
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(widen_all_rows);
HWY_EXPORT(finish_all_rows);

void widen_rows(const RowView& from, std::int64_t rows, std::int64_t columns, float* to,
                std::int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(widen_all_rows)(from, rows, columns, to, to_stride);
}
void finish_rows(const FinishedRows& work, std::int64_t rows, std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(finish_all_rows)(work, rows, columns);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
