#include "phalanx/ops/cpu/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx::cpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of(std::string_view value) {
  return error_of<ConfigError>([&] { requested_target(value); });
}

TEST(CpuTarget, IsTheBestUnlessNamed) {
  EXPECT_EQ(requested_target(""), best_target());
  for (const Target target : targets_here()) EXPECT_EQ(requested_target(name_of(target)), target);
}

TEST(CpuTarget, UnknownNamesAreRefused) {
  for (const std::string value : {"avx1024", "AVX2", "avx2 ", "1"}) {
    EXPECT_THAT(refusal_of(value), AllOf(HasSubstr("PHALANX_CPU_TARGET"),
                                         HasSubstr("'" + value + "'"), HasSubstr("has scalar")));
  }
}

TEST(CpuTarget, TargetsThatTheMachineLacksAreRefused) {
  if (best_target() == Target::kAmx) return;  // this machine has them all
  EXPECT_THAT(refusal_of("amx"), AllOf(HasSubstr("PHALANX_CPU_TARGET is amx"),
                                       HasSubstr(std::string(name_of(best_target())))));
}

// A plan may name a target that this machine lacks.
TEST(CpuTarget, TargetsOfTheBuildAreAccepted) {
  const std::vector<Target> built = targets_of_build();
  ASSERT_GE(std::ssize(built), std::ssize(targets_here()));
  for (const Target target : built) EXPECT_EQ(target_named("--x", name_of(target)), target);
  EXPECT_THAT(error_of<ConfigError>([&] { target_named("--x", "avx1024"); }),
              AllOf(HasSubstr("--x avx1024"), HasSubstr("kernels for scalar")));
}

// Highway's kernels use the forced target until its end.
TEST(CpuTarget, LimitsHighway) {
  const auto chooses = [](std::int64_t target) {
    const bool is_supported = (hwy::SupportedTargets() & target) != 0;
    // Constructing it makes Highway choose among all targets of the processor.
    const ForcedTarget again(active_target());
    return is_supported;
  };
  const Target before = active_target();
  for (const Target target : targets_here()) {
    SCOPED_TRACE(name_of(target));
    const ForcedTarget forced(target);
    EXPECT_EQ(active_target(), target);
    EXPECT_EQ(chooses(HWY_AVX2), target >= Target::kAvx2);
    EXPECT_EQ(chooses(HWY_AVX3), target >= Target::kAvx512);
  }
  EXPECT_EQ(active_target(), before);
  EXPECT_EQ(chooses(HWY_AVX2), before >= Target::kAvx2);
}

}  // namespace
}  // namespace phalanx::cpu
