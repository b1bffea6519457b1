#include "phalanx/planner/memory_bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "phalanx/base/error.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

// The place and the width of every part of a bar, from top left to bottom right; then the legend's.
struct Part {
  std::string style;
  double x = 0.0, y = 0.0, width = 0.0;
};
std::vector<Part> parts_of(const std::string& svg) {
  const std::regex part(
      R"re(class="part ([a-z]+)" x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="22")re");
  std::vector<Part> parts;
  for (std::sregex_iterator i(svg.begin(), svg.end(), part), end; i != end; ++i) {
    parts.push_back({(*i)[1], std::stod((*i)[2]), std::stod((*i)[3]), std::stod((*i)[4])});
  }
  return parts;
}

TEST(MemoryBars, LengthsAreThePlansBytes) {
  TrainConfig c = with_flags(planned_config(4), "--zero-stage 3 --zero-persistence-threshold 100");
  const std::vector<MemoryBar> bars = memory_bars(planned(c), "");
  ASSERT_EQ(bars.size(), 1U);
  EXPECT_EQ(bars[0].ranks, "each of 4 ranks");
  const MemoryPlan& memory = bars[0].memory;
  ASSERT_GT(memory.lent, 0);
  const std::vector<Part> parts = parts_of(to_svg(bars, "a title"));
  double all = 0.0;
  double x = parts.front().x;
  for (const Part& part : parts) {
    EXPECT_NEAR(part.x, x, 0.02) << part.style;
    x += part.width;
    all += part.width;
  }
  const double pixel = static_cast<double>(memory.bytes.total()) / all;
  const std::map<std::string, std::int64_t> expected = {
      {"parameters", memory.bytes["parameters"]},
      {"gradients", memory.bytes["gradients"]},
      {"optimizer", memory.bytes["optimizer"]},
      {"saved", memory.bytes["saved"] - memory.lent},
      {"lent", memory.lent},
      {"workspace", memory.bytes["workspace"]},
      {"communication", memory.bytes["communication"]}};
  for (const Part& part : parts) {
    ASSERT_TRUE(expected.contains(part.style)) << part.style;
    EXPECT_NEAR(part.width * pixel, static_cast<double>(expected.at(part.style)), 0.02 * pixel)
        << part.style;
  }
}

TEST(MemoryBars, RunsAreOnOneScale) {
  std::vector<MemoryBar> bars;
  std::vector<std::int64_t> totals;
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    TrainConfig c = planned_config(4);
    c.layout.zero_stage = stage;
    const std::vector<MemoryBar> more =
        memory_bars(planned(c), fmt::format("--zero-stage {}", stage));
    bars.insert(bars.end(), more.begin(), more.end());
    totals.push_back(bars.back().memory.bytes.total());
  }
  const std::string svg = to_svg(bars, "a title");
  std::map<double, double> length_by_y;
  for (const Part& part : parts_of(svg)) length_by_y[part.y] += part.width;
  ASSERT_EQ(length_by_y.size(), 4U);
  double longest = 0.0;
  for (const auto& [y, length] : length_by_y) longest = std::max(longest, length);
  const double most = static_cast<double>(*std::ranges::max_element(totals));
  std::size_t i = 0;
  for (const auto& [y, length] : length_by_y) {
    EXPECT_NEAR(length / longest, static_cast<double>(totals[i++]) / most, 1e-3);
  }
  EXPECT_THAT(svg, HasSubstr(">--zero-stage 2</text>"));
  EXPECT_THAT(to_text(bars), HasSubstr("--zero-stage 3, each of 4 ranks"));
}

TEST(MemoryBars, RanksThatDifferHaveBarsOfTheirOwn) {
  TrainConfig c = with_flags(planned_config(8),
                             "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2");
  const std::vector<MemoryBar> bars = memory_bars(planned(c), "");
  std::vector<std::string> ranks;
  for (const MemoryBar& bar : bars) ranks.push_back(bar.ranks);
  EXPECT_EQ(ranks, (std::vector<std::string>{"ranks 0 to 3", "ranks 4 to 7"}));
}

TEST(MemoryBars, IsToldToThoseWhoHearIt) {
  TrainConfig c = planned_config(1);
  const std::vector<MemoryBar> bars = memory_bars(planned(c), "--a <b> & c");
  const std::string svg = to_svg(bars, "what <b> takes");
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_THAT(svg, HasSubstr("<title id=\"title\">what &lt;b&gt; takes</title>"));
  EXPECT_THAT(svg, HasSubstr("<desc id=\"description\">--a &lt;b&gt; &amp; c, 1 rank: "));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(MemoryBars, TooManyAreNoPicture) {
  TrainConfig c = planned_config(1);
  const std::vector<MemoryBar> some(65, memory_bars(planned(c), "").front());
  EXPECT_THROW(to_svg(some, ""), ConfigError);
  EXPECT_NO_THROW(to_svg(std::span(some).first(64), ""));
}

}  // namespace
}  // namespace phalanx
