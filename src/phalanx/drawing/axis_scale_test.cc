#include "phalanx/drawing/axis_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace phalanx {
namespace {

std::vector<std::string> labels(const AxisScale& scale, double wanted) {
  std::vector<std::string> found;
  for (const AxisTick& tick : ticks(scale, wanted)) found.push_back(tick.label);
  return found;
}

using Labels = std::vector<std::string>;

TEST(AxisScale, TicksStandAtRoundValues) {
  EXPECT_EQ(labels({0, 10, false}, 5), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels({2.9, 4.6, false}, 4), (Labels{"3.0", "3.5", "4.0", "4.5"}));
  EXPECT_EQ(labels({0, 10'000'000, false}, 4), (Labels{"0", "5 M", "10 M"}));
  EXPECT_EQ(labels({0, 1.04e-3, false}, 3), (Labels{"0.0000", "0.0005", "0.0010"}));
  EXPECT_EQ(labels({0, 3.1e-4, false}, 3), (Labels{"0", "2e-4"}));
  EXPECT_EQ(labels({-1, 1, false}, 4), (Labels{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
}

// There is no iteration 1.5.
TEST(AxisScale, WholeValuesHaveWholeTicks) {
  const auto whole = [](double low, double high, double wanted) {
    Labels found;
    for (const AxisTick& tick : ticks({low, high, false}, wanted, TickValues::kWhole)) {
      found.push_back(tick.label);
    }
    return found;
  };
  EXPECT_EQ(whole(1, 3, 5), (Labels{"1", "2", "3"}));
  EXPECT_EQ(whole(0.5, 1.5, 5), (Labels{"1"}));
  EXPECT_EQ(whole(0, 8.32, 5), (Labels{"0", "2", "4", "6", "8"}));
}

TEST(AxisScale, FarFromZeroTicksAreToldApart) {
  EXPECT_EQ(labels({100'000, 100'400, false}, 4),
            (Labels{"100 k", "100.1 k", "100.2 k", "100.3 k", "100.4 k"}));
  EXPECT_EQ(labels({12'345'670, 12'345'690, false}, 2),
            (Labels{"12.34567 M", "12.34568 M", "12.34569 M"}));
}

TEST(AxisScale, LogarithmicTicksArePowersOfTenWithPartsWhereThereIsRoom) {
  EXPECT_EQ(labels({1, 1e6, true}, 4), (Labels{"1", "100", "10 k", "1 M"}));
  EXPECT_EQ(labels({0.9, 120, true}, 6), (Labels{"1", "2", "5", "10", "20", "50", "100"}));
  // Less than a decade has the ticks of a linear axis.
  EXPECT_EQ(labels({3, 9, true}, 3), (Labels{"4", "6", "8"}));
}

TEST(AxisScale, EveryAxisHasATickAndEveryRangeAnExtent) {
  for (const double low : {-3e9, -1.0, 0.0, 1e-12, 0.7, 65536.0}) {
    for (const double extent : {0.0, 1e-14, 1e-3, 1.0, 7e8}) {
      for (const bool logarithmic : {false, true}) {
        const AxisScale scale = scale_over(low, low + extent, logarithmic, false);
        ASSERT_LT(scale.low, scale.high) << low << " " << extent;
        EXPECT_LE(scale.low, low);
        EXPECT_GE(scale.high, low + extent);
        EXPECT_EQ(scale.logarithmic, logarithmic && low > 0);
        const auto found = ticks(scale, 4);
        EXPECT_GE(found.size(), 1U) << low << " " << extent << logarithmic;
        EXPECT_LE(found.size(), 14U) << low << " " << extent << logarithmic;
        for (const AxisTick& tick : found) {
          EXPECT_GE(tick.value, scale.low - 1e-9 * std::abs(scale.low));
          EXPECT_LE(tick.value, scale.high + 1e-9 * std::abs(scale.high));
        }
      }
    }
  }
}

TEST(AxisScale, PlacesWithinItsEnds) {
  const AxisScale linear{2, 6, false};
  EXPECT_EQ(linear.place(3), 0.25);
  EXPECT_EQ(linear.place(-1), 0);
  EXPECT_EQ(linear.place(9), 1);
  const AxisScale logarithmic{1, 100, true};
  EXPECT_DOUBLE_EQ(logarithmic.place(10), 0.5);
  EXPECT_EQ(logarithmic.place(0), 0);
}

TEST(RoundStep, IsOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(round_step(1.0), 1.0);
  EXPECT_DOUBLE_EQ(round_step(1.01), 2.0);
  EXPECT_DOUBLE_EQ(round_step(2.1), 5.0);
  EXPECT_DOUBLE_EQ(round_step(5.5), 10.0);
  EXPECT_DOUBLE_EQ(round_step(0.003), 0.005);
  EXPECT_DOUBLE_EQ(round_step(1000.0), 1000.0);
}

}  // namespace
}  // namespace phalanx
