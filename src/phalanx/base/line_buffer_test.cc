#include "phalanx/base/line_buffer.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

std::string all_of(LineBuffer& buffer) {
  std::string text;
  while (!buffer.empty()) text += buffer.take(7);
  return text;
}

TEST(LineBuffer, KeepsTheOrderOfBytes) {
  LineBuffer buffer(100, "nobody reads");
  EXPECT_TRUE(buffer.empty());
  buffer.push("one\ntw");
  buffer.push("o\n\rthree");
  EXPECT_EQ(buffer.size(), 14U);
  EXPECT_EQ(all_of(buffer), "one\ntwo\n\rthree");
  EXPECT_EQ(buffer.take(10), "");
}

TEST(LineBuffer, DropsWholeLinesAndSaysHowMany) {
  LineBuffer buffer(10, "nobody reads");
  buffer.push("12345678\n");
  buffer.push("too long\nand ");
  buffer.push("again\nx");  // fits, but dropped too: one gap, not many
  EXPECT_EQ(all_of(buffer), "12345678\n[... 3 lines dropped: nobody reads]\n");
  buffer.push(" more of x\nback\n");
  EXPECT_EQ(all_of(buffer), "back\n");
}

TEST(LineBuffer, ReportsDropsBetweenLines) {
  LineBuffer buffer(10, "nobody reads");
  buffer.push("begun");
  buffer.push(" and too long\n");
  buffer.push("lost\n");
  EXPECT_EQ(buffer.take(5), "begun");
  buffer.push("new\n");
  EXPECT_EQ(all_of(buffer), "\n[... 2 lines dropped: nobody reads]\nnew\n");
  buffer.push("0123456789012345\n");
  EXPECT_EQ(all_of(buffer), "[... 1 line dropped: nobody reads]\n");
}

TEST(LineBuffer, StaysWithinItsBound) {
  LineBuffer buffer(1000, "nobody reads");
  for (int i = 0; i < 100000; ++i) buffer.push("a line that nobody reads\n");
  EXPECT_LE(buffer.size(), 1000U);
  EXPECT_EQ(all_of(buffer).substr(1000), "[... 99960 lines dropped: nobody reads]\n");
}

TEST(LineBuffer, DropsNoResults) {
  LineBuffer buffer(4, "nobody reads");
  buffer.push_all("a result\n");
  EXPECT_EQ(all_of(buffer), "a result\n");
}

}  // namespace
}  // namespace phalanx
