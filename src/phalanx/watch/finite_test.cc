#include "phalanx/watch/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Finite, RecognisesEveryKindOfNumber) {
  Arena arena("test", 1 << 20);
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Context context{.backend = *backend, .workspace = arena, .queue = {}, .recorder = nullptr};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor x = arena.allocate(dtype, {5, 4003});
    for (const double value : {kNan, std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()}) {
      for (const std::int64_t place : {std::int64_t{0}, std::int64_t{11111}, x.count() - 1}) {
        ops::fill(context, {.x = x, .value = -1.5});
        EXPECT_TRUE(is_finite(context, x)) << name_of(dtype);
        ops::fill(context, {.x = x.reshape({x.count()}).slice(0, place, 1), .value = value});
        EXPECT_FALSE(is_finite(context, x)) << name_of(dtype) << " " << value << " " << place;
      }
    }
  }
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor x = arena.allocate(dtype, {3});
    ops::fill(context, {.x = x, .value = -std::numeric_limits<double>::infinity()});
    EXPECT_TRUE(is_finite(context, x, true)) << name_of(dtype);
    for (const double value : {kNan, -kNan, std::numeric_limits<double>::infinity()}) {
      ops::fill(context, {.x = x.slice(0, 1, 1), .value = value});
      EXPECT_FALSE(is_finite(context, x, true)) << name_of(dtype) << " " << value;
    }
  }
  EXPECT_TRUE(is_finite(context, {}));
  EXPECT_TRUE(is_finite(context, arena.allocate(DType::kF32, {0, 4})));
}

}  // namespace
}  // namespace phalanx
