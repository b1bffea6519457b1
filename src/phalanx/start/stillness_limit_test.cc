#include "phalanx/start/stillness_limit.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

using std::chrono::seconds;

TEST(StillnessLimit, IsAMinuteForSmallUnits) {
  EXPECT_EQ(stillness_limit({}, 1e11), seconds(60));
  EXPECT_EQ(stillness_limit({.flops = 200'000'000'000, .bytes = 0}, 1e11), seconds(60));
}

TEST(StillnessLimit, GrowsWithTheSlowestUnit) {
  EXPECT_EQ(stillness_limit({.flops = 1'000'000'000'000, .bytes = 0}, 1e11), seconds(200));
  EXPECT_EQ(stillness_limit({.flops = 1'000'000'000'000, .bytes = 5'000'000'000}, 1e11),
            seconds(300));
  EXPECT_EQ(stillness_limit({.flops = 1'000'000'000'000, .bytes = 4'000'000'000}, 0.0),
            seconds(80));
}

}  // namespace
}  // namespace phalanx
