#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

TimelinePicture picture_of(std::string_view kind, int ranks, int microbatches) {
  const Schedule schedule = make_schedule(kind, {.ranks = ranks, .microbatches = microbatches});
  return {.title = std::string(kind),
          .placement = schedule.placement,
          .timeline = simulate(schedule, {}).timeline,
          .unit = "",
          .footer = ""};
}

std::string svg_of(const TimelinePicture& picture) { return to_svg({&picture, 1}); }

int count(const std::string& text, std::string_view part) {
  int times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

// The number of the first attribute `name` from `at` on.
double attribute(const std::string& text, std::string_view name, std::size_t at) {
  const std::string begin = std::string(name) + "=\"";
  return std::stod(text.substr(text.find(begin, at) + begin.size()));
}

double width_of(const std::string& svg, std::string_view tip) {
  return attribute(svg, "width", svg.rfind("<rect", svg.find(tip)));
}
double left_of(const std::string& svg, std::string_view tip) {
  return attribute(svg, " x", svg.rfind("<rect", svg.find(tip)));
}

TEST(TimelineSvgTest, ARectangleForEveryPassInItsPlace) {
  const std::string svg = svg_of(picture_of("1f1b", 4, 8));
  EXPECT_EQ(count(svg, "<title>F"), 32);
  EXPECT_EQ(count(svg, "<title>B"), 32);
  EXPECT_EQ(count(svg, ">rank "), 4);
  const double unit = width_of(svg, "<title>F0.0, 0 to 1<");
  EXPECT_NEAR(unit, 22.0, 0.01);
  EXPECT_NEAR(width_of(svg, "<title>B0.0, 10 to 12<"), 2 * unit, 0.02);
  EXPECT_NEAR(left_of(svg, "<title>B0.0, 10 to 12<") - left_of(svg, "<title>F0.0, 0 to 1<"),
              10 * unit, 0.02);
  // Each has its number.
  EXPECT_EQ(count(svg, "<text class=\"digits\""), 64);
  EXPECT_EQ(count(svg, "class=\"pair\""), 0);
}

TEST(TimelineSvgTest, ChunksDifferInLightnessAndDirectionsInDigits) {
  const std::string chunks = svg_of(picture_of("zb-v", 2, 4));
  for (const char* rule : {".f-2-00{fill:#5b92e5}", ".f-2-01{fill:#cfdffa}",
                           ".b-2-00{fill:#57b068}", ".w-2-01{fill:#fddfbe}"}) {
    EXPECT_EQ(count(chunks, rule), 1) << rule;
  }
  EXPECT_EQ(count(chunks, "class=\"pass f-2-01\""), 8 + 1) << "eight passes and the legend";
  EXPECT_EQ(count(chunks, "digits up"), 0);
  EXPECT_EQ(count(chunks, "dark to light"), 1);

  const std::string directions = svg_of(picture_of("chimera", 2, 4));
  EXPECT_EQ(count(directions, "class=\"pass f-up\""), 4 + 1);
  EXPECT_EQ(count(directions, "class=\"digits up\""), 8);
  EXPECT_EQ(count(directions, "dark to light"), 0);
  EXPECT_EQ(count(directions, "white digits"), 1);
}

TEST(TimelineSvgTest, PairsHaveACommonBorder) {
  TimelinePicture picture = picture_of("dualpipe-v", 4, 8);
  int pairs = 0;
  for (const auto& row : picture.timeline) {
    pairs += static_cast<int>(std::count_if(
        row.begin(), row.end(), [](const TimedAction& timed) { return timed.action.paired; }));
  }
  ASSERT_GT(pairs, 0);
  const std::string svg = svg_of(picture);
  EXPECT_EQ(count(svg, "class=\"pair\""), pairs + 1) << "and one in the legend";
  // The first pair is a forward pass of 1 and a backward pass of 2, less the width of the line.
  EXPECT_NEAR(attribute(svg, "width", svg.find("class=\"pair\"")),
              3 * width_of(svg, "<title>F0.0, 0 to 1<") - 1.0, 0.02);
}

TEST(TimelineSvgTest, UpdatesAreHatched) {
  TimelinePicture picture = picture_of("gpipe", 1, 1);
  EXPECT_EQ(count(svg_of(picture), "class=\"update\""), 0);
  picture.timeline[0].push_back(
      {.action = {.kind = ActionKind::kOptimizerStep, .version = 1}, .begin = 3, .end = 4});
  picture.timeline[0].push_back({.action = {.kind = ActionKind::kSend}, .begin = 4, .end = 4.5});
  const std::string svg = svg_of(picture);
  EXPECT_EQ(count(svg, "class=\"update\""), 1 + 1);
  EXPECT_EQ(count(svg, "<title>step, 3 to 4<"), 1);
  EXPECT_EQ(count(svg, "<title>send"), 0) << "messages are no row's work";
}

TEST(TimelineSvgTest, TheMemoryLaneIsAStaircaseWithItsPeak) {
  TimelinePicture picture = picture_of("zb-h1", 4, 8);
  const std::string svg = svg_of(picture);
  // 4, 3, 2 and 1 until b, 4 until w.
  for (const char* peak : {">4<", ">3 / 4<", ">2 / 4<", ">1 / 4<"}) {
    EXPECT_GE(count(svg, peak), 1) << peak;
  }
  EXPECT_EQ(count(svg, "<path class=\"held\""), 4);
  EXPECT_EQ(count(svg, "<path class=\"needed\""), 4);
  // One and two activations on a lane of 16 pixels; forward passes take 22, backward passes 44.
  EXPECT_EQ(count(svg_of(picture_of("gpipe", 1, 2)), "d=\"M68 78H68V70H90V62H156V70H200V78V78Z\""),
            1);
  picture.memory_lane = false;
  EXPECT_EQ(count(svg_of(picture), "<path"), 0);
  EXPECT_EQ(count(svg_of(picture), "activations held"), 0);
  EXPECT_LT(attribute(svg_of(picture), " height", 0), attribute(svg, " height", 0));
}

TEST(TimelineSvgTest, LongPicturesAreNoWiderThanAPage) {
  const std::string svg = svg_of(picture_of("1f1b", 4, 200));
  EXPECT_EQ(attribute(svg, " width", 0), 1600.0);
  EXPECT_EQ(count(svg, "<title>F"), 800);
  EXPECT_EQ(count(svg, "class=\"digits\""), 0) << "numbers that do not fit are left out";
  EXPECT_GE(attribute(svg_of(picture_of("gpipe", 1, 1)), " width", 0), 600.0);
}

TEST(TimelineSvgTest, PicturesOfOneDocumentHaveOneScale) {
  const TimelinePicture pictures[] = {picture_of("1f1b", 2, 4), picture_of("naive", 2, 8)};
  const std::string svg = to_svg(pictures);
  const double unit = width_of(svg, "<title>F0.0, 0 to 1<");
  EXPECT_NEAR(width_of(svg, "<title>F7.0, 42 to 43<"), unit, 0.02);
  EXPECT_LT(svg.find(">1f1b<"), svg.find(">naive<"));
  EXPECT_EQ(count(svg, ">F forward<"), 1) << "one legend";
}

TEST(TimelineSvgTest, RowsCanBeginAtTheirFirstPass) {
  TimelinePicture picture = picture_of("zb-h2", 4, 8);
  const std::string together = svg_of(picture);
  EXPECT_GT(left_of(together, "<title>F0.0, 3 to 4<"), left_of(together, "<title>F0.0, 0 to 1<"));
  picture.aligned_to_first = true;
  const std::string apart = svg_of(picture);
  EXPECT_EQ(left_of(apart, "<title>F0.0, 3 to 4<"), left_of(apart, "<title>F0.0, 0 to 1<"));
  EXPECT_EQ(count(apart, "from its own first pass"), 1);
}

TEST(TimelineSvgTest, TextIsEscaped) {
  TimelinePicture picture = picture_of("gpipe", 1, 1);
  picture.title = "a < b & \"c\" > d";
  picture.footer = "one <\ntwo &";
  const std::string svg = svg_of(picture);
  EXPECT_EQ(count(svg, ">a &lt; b &amp; &quot;c&quot; &gt; d<"), 1);
  EXPECT_EQ(count(svg, ">one &lt;<"), 1);
  EXPECT_EQ(count(svg, ">two &amp;<"), 1);
}

// Nothing is beyond the right side of the picture, also at the width of a phone.
TEST(TimelineSvgTest, APageHasAPictureForAPhone) {
  TimelinePicture picture = picture_of("zb-h1", 4, 8);
  picture.title = "simulated with the mean measured times: zb-h1, 4 ranks, 8 microbatches";
  picture.footer = "makespan 24.5 ms, work 18.2 ms, idle 18.9 %, bubble / ideal 18.9 %";
  const std::string page = to_page_svg({&picture, 1});
  const std::size_t paper = page.find("<div class=\"for-paper\">");
  const std::size_t phone = page.find("<div class=\"for-phone\">");
  ASSERT_LT(paper, phone);
  ASSERT_NE(phone, std::string::npos);
  const std::string svg = page.substr(phone);
  const double width = attribute(svg, " width", 0);
  EXPECT_LE(width, 362.0);
  EXPECT_LE(attribute(page, " width", paper), 740.0);
  for (std::size_t at = svg.find("<rect"); at != std::string::npos;
       at = svg.find("<rect", at + 1)) {
    EXPECT_LE(attribute(svg, " x", at) + attribute(svg, " width", at), width);
  }
  constexpr double kLetter = 6.3;
  for (const char* style : {"title", "footer"}) {
    const double letter = style == std::string("title") ? 1.2 * kLetter : kLetter;
    const std::string begin = std::string("<text class=\"") + style + "\"";
    EXPECT_GE(count(svg, begin), 2) << style;
    for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
      const std::size_t text = svg.find('>', at) + 1;
      const auto letters = static_cast<double>(svg.find('<', text) - text);
      EXPECT_LE(attribute(svg, " x", at) + letter * letters, width);
    }
  }
  // All widths have all passes; only the one for windows names them under the pointer.
  EXPECT_EQ(count(page, "class=\"pass "), 3 * (3 * 32 + 3));
  EXPECT_EQ(count(svg, "<title>F"), 0);
  EXPECT_EQ(count(page, "<title>F"), 32);
}

TEST(TimelineSvgTest, TagsAreClosed) {
  const std::string svg = svg_of(picture_of("dualpipe", 4, 8));
  for (const char* tag : {"svg", "style", "defs", "title", "text"}) {
    EXPECT_EQ(count(svg, std::string("<") + tag + ">") + count(svg, std::string("<") + tag + " "),
              count(svg, std::string("</") + tag + ">"))
        << tag;
  }
  EXPECT_EQ(count(svg, "<rect") + count(svg, "<line") + count(svg, "<path"),
            count(svg, "/>") + count(svg, "</rect>"));
}

}  // namespace
}  // namespace phalanx
