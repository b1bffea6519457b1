#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

TimelinePicture picture_of(std::string_view kind, int ranks, int microbatches,
                           const Costs& costs = {}) {
  const Schedule schedule =
      make_schedule(kind, {.ranks = ranks, .microbatches = microbatches, .costs = costs});
  return {.title = std::string(kind),
          .placement = schedule.placement,
          .timeline = simulate(schedule, costs).timeline,
          .unit = "",
          .footer = ""};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TimelineTextTest, AColumnForEachUnitOfTime) {
  TimelinePicture picture = picture_of("1f1b", 2, 4);
  picture.footer = "a footer";
  EXPECT_EQ(to_text(picture),
            "1f1b\n"
            "time    0         10\n"
            "rank 0  FF..B-FB-FB-.B-\n"
            "        01  0 21 32  3\n"
            "rank 1  .FB-FB-FB-FB-..\n"
            "         00 11 22 33\n"
            "F forward, B backward, - goes on, . idle; below: microbatch\n"
            "a footer\n");
}

TEST(TimelineTextTest, ChunksAndDirectionsHaveALine) {
  const auto chunks = lines_of(to_text(picture_of("zb-v", 2, 4)));
  EXPECT_EQ(chunks.at(2), "rank 0  FFFFbwFbwFbwFbwbwFbwbwbw.");
  EXPECT_EQ(chunks.at(3), "        012000111300222113332233");
  EXPECT_EQ(chunks.at(4), "        000111111000111001110000");
  EXPECT_EQ(chunks.at(5), "rank 1  .FFFFbwFbwFbwFbwFbwbbbwww");
  EXPECT_NE(chunks.at(8).find("microbatch, chunk"), std::string::npos) << chunks.at(8);
  const auto directions = lines_of(to_text(picture_of("chimera", 2, 4)));
  EXPECT_EQ(directions.at(2).substr(0, 12), "rank 0  FFB-");
  EXPECT_EQ(directions.at(4).substr(0, 11), "        duu");
  EXPECT_NE(directions.at(8).find("direction down or up"), std::string::npos);
}

TEST(TimelineTextTest, LargeNumbersGetWiderColumns) {
  const auto lines = lines_of(to_text(picture_of("gpipe", 1, 12)));
  EXPECT_EQ(lines.at(2).substr(0, 16), "rank 0  F-F-F-F-");
  EXPECT_EQ(lines.at(3).substr(24, 12),
            "8 9 1011"
            "0   ");
}

TEST(TimelineTextTest, CostsNeedNotBeWholeNumbers) {
  const auto lines =
      lines_of(to_text(picture_of("zb-h1", 1, 2, {.stages = {{1.05, 0.5, 0.25}}, .latency = 0.1})));
  // A column is the shortest pass.
  EXPECT_EQ(lines.at(2), "rank 0  F---b-wF---b-w.");
  EXPECT_EQ(lines.at(3), "        0   0 01   1 1");
}

TEST(TimelineTextTest, TheMiddleOfWhatIsTooLongIsLeftOut) {
  const std::string text = to_text(picture_of("1f1b", 2, 100), 60);
  const auto lines = lines_of(text);
  for (std::size_t row = 1; row < 6; ++row) EXPECT_LE(lines.at(row).size(), 60U) << lines[row];
  EXPECT_EQ(lines.at(2), "rank 0  FF..B-FB-FB-FB-FB-FB-FB-F ~ FB-FB-FB-FB-FB-FB-FB-.B-");
  EXPECT_EQ(lines.at(3).substr(0, 36), "        01  0 21 32 43 54 65 76 8 ~ ");
  EXPECT_EQ(lines.at(3).substr(36), " 92 93 94 95 96 97 98 99");
  EXPECT_NE(text.find("~ left out"), std::string::npos);
  EXPECT_EQ(to_text(picture_of("1f1b", 2, 4), 60).find('~'), std::string::npos);
}

TEST(TimelineTextTest, AFewShortPassesDoNotMakeItLonger) {
  TimelinePicture picture = picture_of("gpipe", 1, 3);
  picture.timeline[0][0].end = 0.001;
  const std::string text = to_text(picture);
  EXPECT_LT(lines_of(text).at(2).size(), 80U);
  EXPECT_NE(text.find("shorter passes may not be seen"), std::string::npos) << text;
}

TEST(TimelineTextTest, EachRowFromItsFirstPass) {
  TimelinePicture picture = picture_of("zb-h2", 2, 4);
  picture.aligned_to_first = true;
  const auto lines = lines_of(to_text(picture));
  for (const std::size_t row : {2U, 4U}) {
    EXPECT_EQ(lines.at(row).size(), 20U) << "no idle time at either end: " << lines.at(row);
    EXPECT_EQ(lines.at(row).find('.'), std::string::npos) << lines.at(row);
  }
  EXPECT_NE(lines.at(6).find("from its own first pass"), std::string::npos);
}

TEST(TimelineTextTest, NothingIsDrawnOfNothing) {
  const TimelinePicture picture{.title = "none",
                                .placement = Placement::contiguous(1),
                                .timeline = {{}},
                                .unit = "ms",
                                .footer = ""};
  EXPECT_EQ(to_text(picture), "none\nms\nrank 0\n\n- goes on, . idle; below: microbatch\n");
}

}  // namespace
}  // namespace phalanx
