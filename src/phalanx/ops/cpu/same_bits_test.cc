// Bits do not depend on machine or threads: every op of the case table gives the same bits on every
// vector target of this processor and with any number of threads.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/same_bits_test.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "hwy/contrib/math/math-inl.h"
#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/exponential-inl.h"
#include "phalanx/ops/cpu/target.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The sum of the first `count` numbers of x.
float float_sum(const float* x, std::int64_t count) {
  FloatSums sums;
  for_terms<FloatSums>(0, count, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
    auto& sum = sums.at<decltype(part)::value>();
    sum = hn::Add(sum, lanes.load(x + i));
  });
  return sums.total();
}

// Functions that every kernel may use; appends their results for `count` floats.
void functions(const float* x, std::int64_t count, std::vector<float>& results) {
  const auto add = [&](const auto& function) HWY_ATTR {
    const std::size_t begin = results.size();
    results.resize(begin + static_cast<std::size_t>(count));
    for_vectors(0, count, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(function(lanes.load(x + i)), results.data() + begin + i);
    });
  };
  add([](FloatVector v) HWY_ATTR { return exponential_or_zero(v); });
  add([](FloatVector v) HWY_ATTR { return hn::Log(FloatTag(), hn::Abs(v)); });
  add([](FloatVector v) HWY_ATTR { return hn::Sqrt(hn::Abs(v)); });
  add([](FloatVector v) HWY_ATTR { return hn::Div(hn::Set(FloatTag(), 1.0F), v); });
  add([](FloatVector v) HWY_ATTR { return hn::MulAdd(v, v, hn::Set(FloatTag(), 1.0F)); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(float_sum);
HWY_EXPORT(functions);

namespace {

// The scalar target has no fused multiply-add, so its bits may differ.
std::vector<Target> vector_targets() {
  std::vector<Target> targets;
  for (const Target target : {Target::kAvx512, Target::kAvx2}) {
    if (target <= best_target()) targets.push_back(target);
  }
  return targets;
}

// result() on every target, in the order of vector_targets().
template <typename Result>
auto on_all_targets(const Result& result) {
  std::vector<decltype(result())> results;
  for (const Target target : vector_targets()) {
    const ForcedTarget forced(target);
    results.push_back(result());
  }
  return results;
}

template <typename Result>
void expect_equal(const std::vector<Result>& results, const std::string& what) {
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_TRUE(results[i] == results[0])
        << what << ": " << name_of(vector_targets()[i]) << " has other bits than "
        << name_of(vector_targets()[0]);
  }
}

class SameBits : public testing::TestWithParam<std::string> {
 protected:
  template <typename Check>
  void for_each_row(const Check& check) {
    for (const ops::Case& row : ops::make_case_table().tests) {
      if (row.op != GetParam()) continue;
      for (const DType storage : row.storage) {
        check(row, storage, row.op + " " + row.description + ", " + std::string(name_of(storage)));
      }
    }
  }
};

TEST_P(SameBits, OnEveryTarget) {
  if (vector_targets().size() < 2) GTEST_SKIP() << "one target with vectors on this processor";
  for_each_row([&](const ops::Case& row, DType storage, const std::string& name) {
    expect_equal(on_all_targets([&] {
                   const auto backend = make_cpu_backend(1, ProductPrecision::kFp32);
                   return ops::output_bits(row, storage, {*backend});
                 }),
                 name);
  });
}

TEST_P(SameBits, WithAnyNumberOfThreads) {
  for_each_row([&](const ops::Case& row, DType storage, const std::string& name) {
    if (storage == DType::kF16) return;  // differs from bf16 in the conversions alone
    std::vector<std::byte> one;
    for (const int threads : {1, 2, 3, 5}) {
      const auto backend = make_cpu_backend(threads, ProductPrecision::kFp32);
      auto bits = ops::output_bits(row, storage, {*backend});
      if (threads == 1)
        one = std::move(bits);
      else
        EXPECT_TRUE(bits == one) << name << ": " << threads << " threads have other bits";
    }
  });
}

std::vector<std::string> tested_ops() {
  std::set<std::string> ops;
  for (const ops::Case& row : ops::make_case_table().tests) {
    ops.insert(row.op);
  }
  return {ops.begin(), ops.end()};
}

INSTANTIATE_TEST_SUITE_P(Ops, SameBits, testing::ValuesIn(tested_ops()),
                         [](const auto& instance) { return instance.param; });

// Numbers of all sizes and both signs.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> x(count);
  std::uint32_t state = 1;
  for (float& value : x) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-25F;
  }
  return x;
}

TEST(SameBitsOfSums, OfEveryLength) {
  const std::vector<float> x = numbers(300);
  for (std::int64_t count = 0; count <= 300; ++count) {
    expect_equal(
        on_all_targets([&] {
          return std::bit_cast<std::uint32_t>(HWY_DYNAMIC_DISPATCH(float_sum)(x.data(), count));
        }),
        "sum of " + std::to_string(count));
  }
}

// Compares with the tree of additions, written out.
TEST(SameBitsOfSums, FollowTheTree) {
  if (vector_targets().empty()) GTEST_SKIP() << "no vectors on this processor";
  const std::vector<float> x = numbers(1000);
  std::vector<float> partial(64);
  for (std::size_t i = 0; i < x.size(); ++i) partial[i % 64] += x[i];
  for (std::size_t half = 32; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) partial[i] += partial[half + i];
  }
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(float_sum)(x.data(), 1000), partial[0]);
}

TEST(SameBitsOfFunctions, OnEveryTarget) {
  const std::vector<float> x = numbers(1 << 20);
  expect_equal(on_all_targets([&] {
                 std::vector<float> results;
                 HWY_DYNAMIC_DISPATCH(functions)
                 (x.data(), static_cast<std::int64_t>(x.size()), results);
                 std::vector<std::uint32_t> bits;
                 for (const float value : results) {
                   bits.push_back(std::bit_cast<std::uint32_t>(value));
                 }
                 return bits;
               }),
               "functions");
}

}  // namespace
}  // namespace phalanx::cpu
#endif  // HWY_ONCE
