#include "phalanx/ops/cpu/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of(std::string_view requested, bool stores_bf16) {
  return error_of<ConfigError>([&] { choose_products(requested, stores_bf16); });
}

TEST(Precision, FollowsTheRequestAndTheStorage) {
  EXPECT_EQ(choose_products("fp32", true).products, ProductPrecision::kFp32);
  EXPECT_EQ(choose_products("auto", false).products, ProductPrecision::kFp32);
  EXPECT_FALSE(choose_products("auto", true).reason.empty());
  EXPECT_THAT(refusal_of("fp8", true), HasSubstr("use auto, fp32, bf16 or amx2"));
  EXPECT_THAT(refusal_of("bf16", false), AllOf(HasSubstr("bf16"), HasSubstr("--bf16")));
  EXPECT_THAT(refusal_of("amx2", false), AllOf(HasSubstr("amx2"), HasSubstr("--bf16")));
}

// A family that the target lacks is refused, and the message lists the available ones.
TEST(Precision, FamiliesAreThoseOfTheTarget) {
  for (const Target target : targets_here()) {
    SCOPED_TRACE(name_of(target));
    const ForcedTarget forced(target);
    const Peak peak = measure_peak(1);
    EXPECT_GT(peak.fp32_gflops, 0.1);
    EXPECT_EQ(peak.bf16_gflops > 0.0, target >= Target::kAvx512Bf16);
    EXPECT_EQ(peak.amx_gflops > 0.0, target >= Target::kAmx);
    EXPECT_EQ(peak.amx_instruction_gflops > 0.0, target >= Target::kAmx);
    EXPECT_EQ(to_text(peak).find("of the instruction alone") != std::string::npos,
              target >= Target::kAmx);
    EXPECT_EQ(peak.of_instruction(ProductPrecision::kAmx), peak.amx_instruction_gflops);
    EXPECT_EQ(peak.of_instruction(ProductPrecision::kFp32), peak.fp32_gflops);
    for (const auto products : {ProductPrecision::kBf16, ProductPrecision::kAmx}) {
      const std::string name(name_of(products));
      EXPECT_EQ(has_products(products), peak.of(products) > 0.0);
      EXPECT_EQ(has_products(name), has_products(products));
      if (has_products(products)) {
        EXPECT_EQ(choose_products(name, true).products, products);
      } else {
        EXPECT_THAT(refusal_of(name, true),
                    AllOf(HasSubstr("target " + std::string(name_of(target))),
                          HasSubstr("it has " + available_products())));
      }
    }
  }
  EXPECT_FALSE(has_products("fp8"));
}

// A named target is not measured and need not be this machine's.
TEST(Precision, OfANamedTargetIsTheSameEverywhere) {
  const auto products = [](std::string_view requested, Target target, bool stores_bf16 = true) {
    return choose_products(requested, stores_bf16, target).products;
  };
  EXPECT_EQ(products("auto", Target::kAvx2), ProductPrecision::kFp32);
  EXPECT_EQ(products("auto", Target::kAvx512), ProductPrecision::kFp32);
  EXPECT_EQ(products("auto", Target::kAvx512Bf16), ProductPrecision::kBf16);
  EXPECT_EQ(products("auto", Target::kAmx), ProductPrecision::kAmx);
  EXPECT_EQ(products("auto", Target::kAmx, false), ProductPrecision::kFp32);
  EXPECT_EQ(products("bf16", Target::kAmx), ProductPrecision::kBf16);
  EXPECT_THROW(products("amx", Target::kAvx512Bf16), ConfigError);
  EXPECT_THROW(products("bf16", Target::kAvx512Bf16, false), ConfigError);
}

// The choice must be stable, so the margin must be wide enough.
TEST(Precision, TheChoiceIsTheSameEveryTime) {
  const auto first = choose_products("auto", true).products;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(choose_products("auto", true).products, first);
  if (has_products(ProductPrecision::kAmx)) {
    EXPECT_EQ(first, ProductPrecision::kAmx);
  }
}

}  // namespace
}  // namespace phalanx::cpu
