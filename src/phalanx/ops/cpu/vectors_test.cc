// The vector forms of scalar functions of base/ (storage conversions, Philox, exp), on every
// target.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/vectors_test.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "phalanx/ops/cpu/exponential-inl.h"
#include "phalanx/ops/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

inline bfloat16 narrowed(bfloat16 /*type*/, float value) { return to_bfloat16(value); }
inline float16 narrowed(float16 /*type*/, float value) { return to_float16(value); }

// Equal bits, or both NaN.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <typename T>
void expect_exact_conversions() {
  const std::int64_t lanes = lane_count();
  int wrong = 0;
  for (std::int64_t base = 0; base < 65536; base += lanes) {
    T stored[kMaxLanes];
    float loaded[kMaxLanes];
    for (std::int64_t i = 0; i < lanes; ++i) stored[i].bits = static_cast<std::uint16_t>(base + i);
    store(load(stored), loaded);
    for (std::int64_t i = 0; i < lanes; ++i) wrong += same(loaded[i], to_float(stored[i])) ? 0 : 1;
  }
  // An odd stride reaches ties and every exponent.
  const std::uint32_t stride = 7919;
  for (std::uint64_t base = 0; base < (std::uint64_t{1} << 32); base += kMaxLanes * stride) {
    float value[kMaxLanes];
    T stored[kMaxLanes];
    float rounded[kMaxLanes];
    for (std::int64_t i = 0; i < lanes; ++i) {
      value[i] = std::bit_cast<float>(static_cast<std::uint32_t>(base + i * stride));
    }
    store(load(value), stored);
    store(round_to<T>(load(value)), rounded);
    for (std::int64_t i = 0; i < lanes; ++i) {
      const float expected = to_float(narrowed(T(), value[i]));
      wrong += same(to_float(stored[i]), expected) && same(rounded[i], expected) ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0) << name_of(kDTypeOf<T>);
}

void conversions() {
  expect_exact_conversions<bfloat16>();
  expect_exact_conversions<float16>();
}

template <typename T>
void expect_partial_vectors() {
  for (std::int64_t count = 1; count <= lane_count(); ++count) {
    std::vector<T> from(static_cast<std::size_t>(count));  // exact: a sanitizer sees overruns
    for (std::size_t i = 0; i < from.size(); ++i)
      convert(&static_cast<const float&>(2.0F), &from[i], 1);
    float loaded[kMaxLanes];
    store(load_first(from.data(), count), loaded);
    for (std::int64_t i = 0; i < lane_count(); ++i) EXPECT_EQ(loaded[i], i < count ? 2.0F : 0.0F);
    std::vector<T> to(kMaxLanes);
    store_first(hn::Set(FloatTag(), 3.0F), to.data(), count);
    std::vector<float> seen(kMaxLanes);
    convert(to.data(), seen.data(), static_cast<std::int64_t>(kMaxLanes));
    for (std::int64_t i = 0; i < lane_count(); ++i) {
      EXPECT_EQ(seen[static_cast<std::size_t>(i)], i < count ? 3.0F : 0.0F);
    }
  }
}

void partial_vectors() {
  expect_partial_vectors<float>();
  expect_partial_vectors<bfloat16>();
  expect_partial_vectors<float16>();
}

void dropout() {
  const Dropout dropout{.probability = 0.37, .key = {123, 456}, .site = 0x12345};
  const DropoutRow row(dropout, 0x123456789abcULL, dropout.site, 77);
  for (const std::int64_t count : {1, 4, 31, 64, 1001}) {
    constexpr std::int64_t kFirst = 40;
    std::vector<float> factors(static_cast<std::size_t>(dropout_buffer_size(count)));
    dropout_factors(row, kFirst, count, factors.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto inner = static_cast<std::uint32_t>(kFirst + i);
      const auto words = philox4x32(dropout_sample_key(dropout.key, 0x123456789abcULL),
                                    dropout_counter(0x123456789abcULL, dropout.site, 77, inner));
      const bool kept = words[inner % 4] >= dropout_threshold(0.37);
      EXPECT_EQ(factors[static_cast<std::size_t>(i)],
                kept ? static_cast<float>(1.0 / (1.0 - 0.37)) : 0.0F);
      EXPECT_EQ(row.factor(inner), factors[static_cast<std::size_t>(i)]);
    }
  }
}

void exponentials() {
  double worst = 0.0;
  for (float x = kLowestExponent; x < kHighestExponent; x += 0.000917F) {
    float result[kMaxLanes];
    store(exponential(hn::Set(FloatTag(), x)), result);
    worst = std::max(worst, std::abs(result[0] / std::exp(static_cast<double>(x)) - 1.0));
  }
  EXPECT_LT(worst, 1.2e-7);
  for (const float x : {-87.5F, -1000.0F, -std::numeric_limits<float>::infinity()}) {
    float result[kMaxLanes];
    store(exponential_or_zero(hn::Set(FloatTag(), x)), result);
    EXPECT_EQ(result[0], 0.0F) << x;
  }
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(conversions);
HWY_EXPORT(partial_vectors);
HWY_EXPORT(dropout);
HWY_EXPORT(exponentials);

namespace {

// Runs the test body on every compiled target that this processor has.
class Vectors : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(Vectors, ConvertAsScalarsDo) { HWY_DYNAMIC_DISPATCH(conversions)(); }
TEST_P(Vectors, TouchOnlyTheirFirstLanes) { HWY_DYNAMIC_DISPATCH(partial_vectors)(); }
TEST_P(Vectors, DropByPhilox) { HWY_DYNAMIC_DISPATCH(dropout)(); }
TEST_P(Vectors, ComputeExpTo1e7) { HWY_DYNAMIC_DISPATCH(exponentials)(); }

INSTANTIATE_TEST_SUITE_P(Targets, Vectors, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) {
                           return std::string(hwy::TargetName(instance.param));
                         });

}  // namespace
}  // namespace phalanx::cpu
#endif  // HWY_ONCE
