#include "phalanx/tokenizer/special_finder.h"

#include <gtest/gtest.h>

#include <random>

namespace phalanx {
namespace {

TEST(SpecialFinder, FindsTheLongestAtTheFirstPosition) {
  std::mt19937 random(4);
  const auto text_of = [&random](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n) text.push_back("<ab\xff"[random() % 4]);
    return text;
  };
  int hits = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::pair<std::string, std::int32_t>> tokens;
    for (std::int32_t id = 0; id < 5; ++id) {
      const std::string name = text_of(5);
      const bool known =
          std::any_of(tokens.begin(), tokens.end(), [&](auto& t) { return t.first == name; });
      if (!known) tokens.emplace_back(name, id);
    }
    const SpecialFinder finder(tokens);
    const std::string text = text_of(30);
    std::optional<SpecialFinder::Found> expected;
    for (const auto& [name, id] : tokens) {
      const std::size_t begin = text.find(name);
      if (begin == std::string::npos) continue;
      if (!expected || begin < expected->begin ||
          (begin == expected->begin && name.size() > expected->length)) {
        expected = {begin, name.size(), id};
      }
    }
    const auto found = finder.find(text);
    ASSERT_EQ(found.has_value(), expected.has_value());
    if (!found) continue;
    ++hits;
    EXPECT_EQ(found->begin, expected->begin);
    EXPECT_EQ(found->length, expected->length);
    EXPECT_EQ(found->id, expected->id);
  }
  EXPECT_GT(hits, 1000);
  EXPECT_FALSE(SpecialFinder().find("<a>"));
}

}  // namespace
}  // namespace phalanx
