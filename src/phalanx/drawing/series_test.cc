#include "phalanx/drawing/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace phalanx {
namespace {

TEST(Series, KeepsAShortCurveAsItIs) {
  Series series(8);
  for (int i = 0; i < 16; ++i) series.add(i, 100 - i);
  ASSERT_EQ(series.bins().size(), 16U);
  EXPECT_EQ(means(series.bins()), outline(series.bins()));
  EXPECT_EQ(series.last(), 85);
  EXPECT_EQ(series.median(), 93);
  EXPECT_EQ(series.count(), 16);
}

TEST(Series, ALongOneLosesNoPeakAndNoSum) {
  constexpr int kPoints = 100'000;
  Series series(100);
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) {
    double y = std::sin(i * 0.01);
    if (i == 77'777) y = 50;
    if (i == 33'333) y = -50;
    sum += y;
    series.add(i, y);
    ASSERT_LE(series.bins().size(), 200U);
  }
  EXPECT_GE(series.bins().size(), 100U);
  EXPECT_EQ(series.least(), -50);
  EXPECT_EQ(series.most(), 50);
  EXPECT_NEAR(series.sum(), sum, 1e-9 * kPoints);
  std::int64_t count = 0;
  double bins_sum = 0;
  double before = -1;
  for (const SeriesBin& bin : series.bins()) {
    count += bin.count;
    bins_sum += bin.sum;
    EXPECT_GT(bin.x_first, before);
    before = bin.x_last;
  }
  EXPECT_EQ(count, kPoints);
  EXPECT_NEAR(bins_sum, sum, 1e-9 * kPoints);
  const auto columns = thinned(series.bins(), 30);
  EXPECT_LE(columns.size(), 30U);
  double most = 0;
  for (const ChartPoint& point : outline(columns)) most = std::max(most, point.y);
  EXPECT_EQ(most, 50);
}

TEST(Series, LeavesOutWhatIsNoNumber) {
  Series series;
  series.add(1, std::nan(""));
  series.add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(series.empty());
  series.add(3, 4);
  EXPECT_EQ(series.count(), 1);
  EXPECT_EQ(series.least(), 4);
}

TEST(Series, AnOutlineKeepsTheOrderOfExtremes) {
  Series series(1);
  for (const double y : {1.0, 9.0, 2.0, 3.0}) series.add(static_cast<double>(series.count()), y);
  const auto rising = outline(thinned(series.bins(), 1));
  EXPECT_EQ(rising, (std::vector<ChartPoint>{{0, 1}, {3, 9}}));
  Series other(1);
  for (const double y : {5.0, 9.0, 2.0, 3.0}) other.add(static_cast<double>(other.count()), y);
  EXPECT_EQ(outline(thinned(other.bins(), 1)), (std::vector<ChartPoint>{{0, 9}, {3, 2}}));
}

TEST(Thinned, KeepsTheEndsOfACurve) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({1.0 * i, 2.0 * i});
  for (const std::size_t columns : {1, 2, 3, 7, 308, 644, 999}) {
    const auto fewer = thinned(points, columns);
    EXPECT_LE(fewer.size(), std::max<std::size_t>(columns, 2)) << columns;
    EXPECT_EQ(fewer.front(), points.front());
    EXPECT_EQ(fewer.back(), points.back());
  }
  EXPECT_EQ(thinned(points, 1000), points);
  EXPECT_TRUE(thinned(std::span<const ChartPoint>(), 5).empty());
  EXPECT_EQ(thinned(std::span(points).first(1), 5).size(), 1U);
}

TEST(Smoothed, IsTheMeanOfTheNeighbourhood) {
  Series series;
  for (int i = 0; i < 400; ++i) series.add(i, 3.0 + (i % 2 == 0 ? 1 : -1));
  const auto curve = smoothed(series.bins());
  ASSERT_EQ(curve.size(), 400U);
  for (const ChartPoint& point : curve) EXPECT_NEAR(point.y, 3.0, 0.25);
  // A bin counts as often as it has points.
  std::vector<SeriesBin> bins(100, {.least = 1, .most = 1, .sum = 1, .count = 1});
  bins[50] = {.least = 2, .most = 2, .sum = 2e6, .count = 1'000'000};
  EXPECT_NEAR(smoothed(bins)[51].y, 2.0, 1e-3);
}

}  // namespace
}  // namespace phalanx
