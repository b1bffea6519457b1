#include "phalanx/tokenizer/gpt2_words.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/unicode.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {
namespace {

std::vector<std::string> words_of(const WordSplitter& splitter, std::string_view text) {
  WordCursor cursor(splitter, text);
  std::vector<std::string> words;
  for (auto word = cursor.next(); !word.empty(); word = cursor.next()) words.emplace_back(word);
  return words;
}

class Gpt2WordsTest : public testing::Test {
 protected:
  void expect_equal(const std::string& text) const {
    ASSERT_EQ(words_of(by_hand_, text), words_of(by_pcre2_, text));
  }

  WordSplitter by_hand_{pattern_named("gpt2")};
  WordSplitter by_pcre2_{"(?:" + pattern_named("gpt2") + ")"};  // other text, same meaning
};

TEST_F(Gpt2WordsTest, EveryCharacterHasTheSameKind) {
  std::string text;
  for (char32_t character = 0; character < 0x110000; ++character) {
    if (character >= 0xd800 && character < 0xe000) continue;
    // Beside a letter, a number and another sign, the cuts reveal the kind of a character.
    append_utf8(character, text);
    text += character % 3 == 0 ? "a" : character % 3 == 1 ? "1" : "!";
    if (character % 5 == 0) text += ' ';
  }
  expect_equal(text);
}

TEST_F(Gpt2WordsTest, AnyTextIsCutEqually) {
  const std::vector<std::string> pieces = {
      "a",          "b",         "Z",      " ",
      "  ",         "\n",        "\t",     "'",
      "'s",         "'re",       "'v",     "'ll",
      "'S",         "1",         "23",     "!",
      "<|",         "\u00e9",    "\u00a0", "\u3000",
      "\u4e16",     "\u0301",    "\u00bd", "\U0001f600",
      "\u2160",     "\u180e",    "\xff",   "\xe4",
      "\xe4\xb8",   "\x80",      "\u2028", std::string(1, '\0'),
      "\u0085",     "\xc3",      "e",      "l",
      "\U000e0041", "\U0003134a"};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t n = 1 + random() % 12; n > 0; --n) {
      switch (round % 3) {
        case 0:
          text.push_back(static_cast<char>(random() % 256));
          break;
        case 1:
          append_utf8(static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0xd800)),
                      text);
          break;
        default:
          text += pieces[random() % pieces.size()];
      }
    }
    expect_equal(text);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace phalanx
