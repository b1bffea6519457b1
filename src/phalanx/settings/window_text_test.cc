#include "phalanx/settings/window_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Read>
std::string refusal_of(const Read& read) {
  return error_of<ConfigError>([&] { read(); });
}

TEST(ConfigWindow, AQuerySeesItselfAndSoManyBefore) {
  EXPECT_EQ(window_from_text("2,0"), 3);
  EXPECT_EQ(window_from_text("(2, 0)"), 3);
  EXPECT_EQ(window_from_text(" ( 4095 ,0 )"), 4096);
  EXPECT_EQ(window_from_text("0,0"), 1);
  EXPECT_EQ(window_from_text("-1,0"), 0);
  EXPECT_EQ(window_from_text("-1,-1"), 0);
}

TEST(ConfigWindow, WhatIsNoWindowIsRefused) {
  for (const char* text : {"", "3", "3,", ",0", "a,0", "3,0,0", "(3,0", "3,0)", "3;0", "3.5,0",
                           "99999999999999999999,0"}) {
    EXPECT_THAT(refusal_of([&] { window_from_text(text); }),
                HasSubstr("give two whole numbers, L,0"))
        << text;
  }
  EXPECT_THAT(refusal_of([] { window_from_text("3,1"); }),
              AllOf(HasSubstr("--window-size 3,1"), HasSubstr("give 3,0")));
  EXPECT_THAT(refusal_of([] { window_from_text("3,-1"); }), HasSubstr("give 3,0"));
  EXPECT_THAT(refusal_of([] { window_from_text("2147483647,0"); }), HasSubstr("give -1,0"));
}

TEST(ConfigWindow, EveryNthLayerHasNone) {
  EXPECT_THAT(window_layers_from_text("", 3), IsEmpty());
  EXPECT_THAT(window_layers_from_text("2", 5), ElementsAre(true, false, true, false, true));
  EXPECT_THAT(window_layers_from_text("1", 2), ElementsAre(false, false));
  EXPECT_THAT(window_layers_from_text("(1+2)*1", 4), ElementsAre(true, true, false, true));
}

TEST(ConfigWindow, ListsAreAsPythonWritesThem) {
  EXPECT_THAT(window_layers_from_text("[0]*2+[1]*3", 5),
              ElementsAre(false, false, true, true, true));
  EXPECT_THAT(window_layers_from_text("[0, 1,] * 2", 4), ElementsAre(false, true, false, true));
  EXPECT_THAT(window_layers_from_text("2*([1]+[0]*(1+0))", 4),
              ElementsAre(true, false, true, false));
  EXPECT_THAT(window_layers_from_text("[1]*0+[]+[0]", 1), ElementsAre(false));
}

TEST(ConfigWindow, WhatIsNoListIsRefused) {
  for (const char* text :
       {"[0", "0]", "[0]*", "+[0]", "[0]+1", "1+[0]", "[0]*[1]", "[[0]]", "[0]-[1]", "x", "[-1]",
        "[0]**2", "([0]", "[0] [1]]", "[0]*999999999", "[1]*65536*65536", "99999999999999999999"}) {
    EXPECT_THAT(refusal_of([&] { window_layers_from_text(text, 2); }),
                HasSubstr("give a number N, or a list of 0 and 1"))
        << text;
  }
  EXPECT_THAT(refusal_of([] { window_layers_from_text(std::string(5000, '('), 2); }),
              HasSubstr("give a number N"));
  EXPECT_THAT(refusal_of([] { window_layers_from_text("0", 2); }), HasSubstr("give at least 1"));
  EXPECT_THAT(refusal_of([] { window_layers_from_text("[1]*3", 2); }),
              HasSubstr("a list of 3 elements for --num-layers 2"));
  EXPECT_THAT(refusal_of([] { window_layers_from_text("[1,2]", 2); }),
              HasSubstr("an element is 2; give 0 or 1"));
}

}  // namespace
}  // namespace phalanx
