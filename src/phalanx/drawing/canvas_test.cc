#include "phalanx/drawing/canvas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/drawing/palette.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Canvas, WritesShapesWithShortNumbersAndEscapedTexts) {
  Canvas canvas;
  canvas.rectangle("a", 1.0 / 3.0, 2, 3.5, 4, "x < y");
  canvas.begin_path("b", 1, 2);
  canvas.horizontal_to(3);
  canvas.vertical_to(4);
  canvas.end_path();
  const std::string svg = canvas.element("class=\"c\"");
  EXPECT_EQ(svg,
            "<svg class=\"c\">\n<rect class=\"a\" x=\"0.33\" y=\"2\" width=\"3.5\" height=\"4\">"
            "<title>x &lt; y</title></rect>\n<path class=\"b\" d=\"M1 2H3V4Z\"/>\n</svg>\n");
  Canvas coarse(1);
  coarse.begin_curve("curve", "\"");
  coarse.curve_to(0.25, 0.04);
  coarse.end_curve();
  EXPECT_THAT(coarse.element(""),
              HasSubstr("<polyline class=\"curve\" data-name=\"&quot;\" points=\"0.2,0 \"/>"));
}

TEST(Canvas, ADocumentHasAGroundAndItsTitleInWords) {
  const Canvas canvas;
  const std::string plain = canvas.document(10, 20, ".a{}\n", "");
  EXPECT_THAT(plain, HasSubstr("viewBox=\"0 0 10 20\""));
  EXPECT_THAT(plain, HasSubstr("fill=\"#ffffff\""));
  EXPECT_THAT(plain, Not(HasSubstr("role=")));
  const std::string titled =
      canvas.document(10, 20, "", "", {.title = "a & b", .description = "c"});
  EXPECT_THAT(titled, HasSubstr("role=\"img\" aria-labelledby=\"title description\""));
  EXPECT_THAT(titled, HasSubstr("<title id=\"title\">a &amp; b</title>"));
}

TEST(Canvas, TheRulesOfAFragmentHoldInItsScopeAlone) {
  const std::string svg = Canvas().fragment(10, 20, ".a{}\n", "", "timeline");
  EXPECT_THAT(svg, HasSubstr("\n.timeline .a{}\n"));
  EXPECT_THAT(svg, HasSubstr("\n.timeline text{"));
  EXPECT_THAT(svg, Not(HasSubstr("fill=\"#ffffff\"")));
}

TEST(Canvas, AnAxisHasLabelsBelowItsTicks) {
  Canvas canvas;
  const AxisScale scale{.low = 0, .high = 7};
  canvas.axis(scale, ticks(scale, 4), 10, 80, 5);
  const std::string svg = canvas.element("");
  EXPECT_THAT(svg, HasSubstr("<line class=\"base\" x1=\"30\" y1=\"5\" x2=\"30\" y2=\"9\"/>"));
  EXPECT_THAT(svg, HasSubstr("<text class=\"tick\" x=\"30\" y=\"20\">2</text>"));
}

TEST(Legend, BeginsANewLineWhereAnEntryDoesNotFit) {
  Canvas canvas;
  Legend legend(canvas, 12, 150, 100);
  for (const char* text : {"one", "two", "three long words"}) legend.add("part", text);
  EXPECT_EQ(legend.bottom(), 100 + 2 * Legend::kLineHeight);
  const std::string svg = canvas.element("");
  EXPECT_THAT(svg, HasSubstr("x=\"12\" y=\"120\" width=\"13\" height=\"13\"/>"));
}

TEST(Palette, MixesColours) {
  EXPECT_EQ(mixed("#000000", "#ffffff", 0.0), "#000000");
  EXPECT_EQ(mixed("#5b92e5", "#cfdffa", 1.0), "#cfdffa");
  EXPECT_EQ(mixed("#0000ff", "#10ff00", 0.5), "#088080");
}

}  // namespace
}  // namespace phalanx
