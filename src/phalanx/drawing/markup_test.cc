#include "phalanx/drawing/markup.h"

#include <gtest/gtest.h>

#include <cmath>

namespace phalanx {
namespace {

TEST(EscapeMarkup, LeavesNothingThatIsMarkup) {
  EXPECT_EQ(escape_markup("a < b > c & \"d\" 'e'"), "a &lt; b &gt; c &amp; &quot;d&quot; 'e'");
  EXPECT_EQ(escape_markup("süß 中 😀"), "süß 中 😀");
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_markup("a\xFF"
                          "b\x1B[c"),
            "a" + mark + "b" + mark + "[c");
  EXPECT_EQ(escape_markup("\xC0\xBC"), mark + mark);  // an overlong "<"
  EXPECT_EQ(escape_markup("\xE0\x80\xBC"), mark + mark + mark);
  EXPECT_EQ(escape_markup("\xED\xA0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(escape_markup("\xE4\xB8"), mark + mark);             // cut
}

TEST(ShortNumber, HasNoTrailingZeros) {
  EXPECT_EQ(short_number(12.0, 2), "12");
  EXPECT_EQ(short_number(100.0, 0), "100");
  EXPECT_EQ(short_number(0.5, 2), "0.5");
  EXPECT_EQ(short_number(1.0 / 3.0, 2), "0.33");
  EXPECT_EQ(short_number(-0.001, 2), "0");
}

TEST(ShortValue, HasAFewDigitsAndAUnit) {
  EXPECT_EQ(short_value(0), "0");
  EXPECT_EQ(short_value(4.240437, 4), "4.24");
  EXPECT_EQ(short_value(4.2454, 4), "4.245");
  EXPECT_EQ(short_value(1234), "1234");
  EXPECT_EQ(short_value(48'123), "48.1 k");
  EXPECT_EQ(short_value(999'999), "1 M");
  EXPECT_EQ(short_value(4294967296.0), "4.29 G");
  EXPECT_EQ(short_value(0.0312), "0.0312");
  EXPECT_EQ(short_value(3e-4), "3e-4");
  EXPECT_EQ(short_value(-1.5e-8), "-1.5e-8");
  EXPECT_EQ(short_value(2e21), "2e21");
  EXPECT_EQ(short_value(std::nan("")), "-");
}

TEST(TextWidth, CountsLettersNotBytes) {
  EXPECT_EQ(text_width("süß"), text_width("abc"));
  EXPECT_EQ(text_width("ab", 24.0), text_width("abcd", 12.0));
}

}  // namespace
}  // namespace phalanx
