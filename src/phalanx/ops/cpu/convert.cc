// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/convert.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/convert.h"

#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

void widen_range(DType dtype, const void* from, float* to, std::int64_t count) {
  with_storage(dtype, [=](auto type) HWY_ATTR {
    convert(static_cast<const decltype(type)*>(from), to, count);
  });
}

void narrow_range(DType dtype, const float* from, void* to, std::int64_t count) {
  with_storage(dtype,
               [=](auto type) HWY_ATTR { convert(from, static_cast<decltype(type)*>(to), count); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(widen_range);
HWY_EXPORT(narrow_range);

void widen(DType dtype, const void* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_range)(dtype, from, to, count);
}
void narrow(DType dtype, const float* from, void* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_range)(dtype, from, to, count);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
