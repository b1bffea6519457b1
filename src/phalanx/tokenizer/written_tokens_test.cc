#include "phalanx/tokenizer/written_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> parts_of(const WrittenTokens& tokens, std::string_view text) {
  std::vector<std::string> parts;
  tokens.read(
      text, [&](std::string_view between) { parts.emplace_back(between); },
      [&](std::int32_t id) { parts.push_back("#" + std::to_string(id)); });
  return parts;
}

TEST(WrittenTokens, EarliestFirst) {
  WrittenTokens tokens;
  tokens.add("<a>", 1);
  tokens.add("<ab", 2);
  tokens.add("<ab>", 3);
  tokens.add("b><", 4);
  EXPECT_THAT(parts_of(tokens, "x<a><ab>y<ab><a>"),
              ElementsAre("x", "#1", "#2", ">y", "#2", ">", "#1"));
  EXPECT_THAT(parts_of(tokens, "b><a>"), ElementsAre("#4", "a>"));
  EXPECT_THAT(parts_of(tokens, "<a><a>"), ElementsAre("#1", "#1"));
  EXPECT_THAT(parts_of(tokens, "<"), ElementsAre("<"));
  EXPECT_THAT(parts_of(tokens, ""), IsEmpty());
  EXPECT_THAT(parts_of(WrittenTokens(), "abc"), ElementsAre("abc"));
}

}  // namespace
}  // namespace phalanx
