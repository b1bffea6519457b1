#include "phalanx/base/json_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace phalanx {
namespace {

std::string fault(std::string_view text, std::string_view at) {
  return json_fault(text, text.find(at) + 1);
}

TEST(JsonFault, SaysLineColumnAndWhatStandsThere) {
  EXPECT_EQ(fault("{\"a\": 1,}", "}"), "line 1, column 9: a comma before }");
  EXPECT_EQ(fault("{\n \"a\": [1,\n ]\n}", "]"), "line 3, column 2: a comma before ]");
  EXPECT_EQ(fault("{\"ä\": None}", "None"), "line 1, column 7: None is no value of JSON: null is");
  EXPECT_EQ(fault("[-Infinity]", "I"), "line 1, column 3: -Infinity is no value of JSON: null is");
  EXPECT_EQ(fault("{'a': 1}", "'"), "line 1, column 2: a single quote: strings have double ones");
  EXPECT_EQ(fault("{} // x", "/"), "line 1, column 4: a comment: JSON has none");
  EXPECT_EQ(fault("[01x]", "x"), "line 1, column 4: '01x' is no value of JSON");
  EXPECT_EQ(json_fault("{\"a\":", 6), "line 1, column 6: the text ends before its value does");
  EXPECT_EQ(json_fault("", 1), "line 1, column 1: the text ends before its value does");
}

TEST(PythonNumbers, AreReplacedOutsideOfStringsAndKeys) {
  const auto text =
      without_python_numbers(R"({"NaN": NaN, "x": "Infinity \" NaN", "y": [-Infinity,)"
                             "Infinity]}");
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(*text,
            "{\"NaN\": \"\x7f\", \"x\": \"Infinity \\\" NaN\", \"y\": "
            "[\"\x7f\x7f\x7f\x7f\x7f\x7f\x7f\",\"\x7f\x7f\x7f\x7f\x7f\x7f\"]}");
  EXPECT_TRUE(std::isnan(*python_number("\x7f")));
  EXPECT_EQ(python_name(*python_number("\x7f\x7f\x7f\x7f\x7f\x7f")), "Infinity");
  EXPECT_EQ(python_name(*python_number("\x7f\x7f\x7f\x7f\x7f\x7f\x7f")), "-Infinity");
  EXPECT_FALSE(python_number("").has_value());
  EXPECT_FALSE(python_number("NaN").has_value());
  EXPECT_FALSE(python_number("\x7f\x7f").has_value());
}

TEST(PythonNumbers, AreWholeWordsAndNoKeys) {
  for (const char* text :
       {R"({"a": 1})", "[nan, -NaN, NaNs, inf, +Infinity, 1Infinity]", "{NaN : 1}", "\"NaN", ""}) {
    EXPECT_FALSE(without_python_numbers(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace phalanx
