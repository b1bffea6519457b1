#include "phalanx/drawing/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

LineChart chart_of(std::vector<ChartCurve> curves) {
  return {.title = "loss", .curves = std::move(curves)};
}

TEST(LineChart, DrawsCurvesWithinItsBoxAndNamesAtTheirEnds) {
  const std::string svg = to_svg(
      chart_of({{.name = "a 3.1", .points = {{0, 4}, {5, 3.5}, {10, 3.1}}, .colour = 2}}), {});
  EXPECT_THAT(svg, HasSubstr("class=\"curve c2\""));
  EXPECT_THAT(svg, HasSubstr(">a 3.1</text>"));
  EXPECT_THAT(svg, HasSubstr(">iteration</text>"));
  const std::regex point("(-?[0-9.]+),(-?[0-9.]+) ");
  int points = 0;
  for (std::sregex_iterator i(svg.begin(), svg.end(), point), end; i != end; ++i, ++points) {
    EXPECT_GE(std::stod((*i)[1]), 0);
    EXPECT_LE(std::stod((*i)[1]), 440);
    EXPECT_GE(std::stod((*i)[2]), 0);
    EXPECT_LE(std::stod((*i)[2]), 230);
  }
  EXPECT_EQ(points, 3);
}

TEST(LineChart, EscapesWhatItIsGiven) {
  const std::string bad = "</svg><script>alert(1)</script>";
  LineChart chart = chart_of({{.name = bad, .points = {{0, 1}, {1, 2}}}});
  chart.title = chart.x_name = bad;
  chart.marks = {{0.5, bad}};
  const std::string svg = to_svg(chart, {});
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_EQ(svg.find("</svg>"), svg.size() - 7);
}

TEST(LineChart, NamesDoNotCoverEachOther) {
  std::vector<ChartCurve> curves;
  for (int i = 0; i < 8; ++i) {
    curves.push_back({.name = "run" + std::to_string(i), .points = {{0, 5}, {1, 3 + 1e-3 * i}}});
  }
  const std::string svg = to_svg(chart_of(std::move(curves)), {});
  const std::regex name(R"(class="end c0" x="[0-9.]+" y="([0-9.]+)\")");
  std::vector<double> heights;
  for (std::sregex_iterator i(svg.begin(), svg.end(), name), end; i != end; ++i) {
    heights.push_back(std::stod((*i)[1]));
  }
  ASSERT_EQ(heights.size(), 8U);
  for (std::size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 12.9);
  EXPECT_LE(heights.back(), 230 - 34);
}

TEST(LineChart, IterationsHaveNoFractions) {
  const std::string svg = to_svg(chart_of({{.points = {{1, 10}, {2, 20}, {3, 30}}}}), {});
  for (const char* label : {">1<", ">2<", ">3<"}) EXPECT_THAT(svg, HasSubstr(label));
  for (const char* label : {">1.0<", ">1.5<", ">2.5<"}) EXPECT_THAT(svg, Not(HasSubstr(label)));
}

TEST(LineChart, NamesOfMarksDoNotCoverEachOther) {
  LineChart chart = chart_of({{.points = {{0, 5}, {100, 3}}}});
  chart.marks = {{10, "resumed"}, {12, "resumed"}, {60, "resumed"}};
  const std::string svg = to_svg(chart, {});
  const auto count = [&](std::string_view part) {
    int times = 0;
    for (auto i = svg.find(part); i != std::string::npos; i = svg.find(part, i + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count("<line class=\"mark\""), 3);
  EXPECT_EQ(count(">resumed</text>"), 2);
}

TEST(LineChart, HasSomethingToDrawOrIsEmpty) {
  EXPECT_EQ(to_svg(chart_of({}), {}), "");
  EXPECT_EQ(to_svg(chart_of({{.name = "none"}}), {}), "");
  // A curve of one point, and values without a logarithm.
  EXPECT_THAT(to_svg(chart_of({{.points = {{7, 0}}}}), {}), HasSubstr("<circle"));
  LineChart chart = chart_of({{.points = {{1, 0}, {2, -4}}}});
  chart.logarithmic = true;
  EXPECT_THAT(to_svg(chart, {}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace phalanx
