#include "phalanx/metrics/rate.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(MovingRate, AveragesOverTime) {
  MovingRate rate;
  EXPECT_EQ(rate.per_second(), 0.0);
  rate.add(100, 0.5);
  EXPECT_DOUBLE_EQ(rate.per_second(), 200.0);
  rate.add(100, 1.5);
  EXPECT_DOUBLE_EQ(rate.per_second(), 100.0);
}

TEST(MovingRate, ForgetsOldSteps) {
  MovingRate rate;
  rate.add(33, 1.0);
  for (int i = 1; i < 32; ++i) rate.add(1, 1.0);
  EXPECT_DOUBLE_EQ(rate.per_second(), 2.0);
  rate.add(1, 1.0);
  EXPECT_DOUBLE_EQ(rate.per_second(), 1.0);
}

}  // namespace
}  // namespace phalanx
