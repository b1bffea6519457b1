#include "phalanx/tokenizer/word_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/test_files.h"
#include "phalanx/tokenizer/wordpiece_words.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> split(std::string_view text) {
  const WordSplitter splitter(pattern_named("gpt2"));
  WordCursor cursor(splitter, text);
  std::vector<std::string> words;
  for (auto word = cursor.next(); !word.empty(); word = cursor.next()) words.emplace_back(word);
  return words;
}

TEST(WordSplitter, SplitsAsGpt2) {
  EXPECT_THAT(split("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(split("In 1611, King James's men"),
              ElementsAre("In", " 1611", ",", " King", " James", "'s", " men"));
  EXPECT_THAT(split("abc123def"), ElementsAre("abc", "123", "def"));
  EXPECT_THAT(split("#include <x.h>"), ElementsAre("#", "include", " <", "x", ".", "h", ">"));
  EXPECT_THAT(split("<|endoftext|>"), ElementsAre("<|", "endoftext", "|>"));
  EXPECT_THAT(split(""), IsEmpty());
}

TEST(WordSplitter, ContractionsAreLowerCaseOnly) {
  EXPECT_THAT(split("I'm you've we're he'd it'll don't that's"),
              ElementsAre("I", "'m", " you", "'ve", " we", "'re", " he", "'d", " it", "'ll", " don",
                          "'t", " that", "'s"));
  EXPECT_THAT(split("IT'S 'LL"), ElementsAre("IT", "'", "S", " '", "LL"));
  EXPECT_THAT(split("x'sy 's"), ElementsAre("x", "'s", "y", " '", "s"));
}

TEST(WordSplitter, TheLastSpaceOfARunJoinsTheNextWord) {
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(split("a \t b"), ElementsAre("a", " \t", " b"));
  EXPECT_THAT(split("a  \n"), ElementsAre("a", "  \n"));
  EXPECT_THAT(split("  "), ElementsAre("  "));
}

TEST(WordSplitter, KnowsUnicode) {
  // Letters, numbers of all kinds (Nd, Nl, No), combining marks (neither), ideographic spaces.
  EXPECT_THAT(split("caf\u00e9 \u4e16\u754c \u03b1\u03b2"),
              ElementsAre("caf\u00e9", " \u4e16\u754c", " \u03b1\u03b2"));
  EXPECT_THAT(split("a\u00bd\u21602\u00b2"), ElementsAre("a", "\u00bd\u21602\u00b2"));
  EXPECT_THAT(split("e\u0301x"), ElementsAre("e", "\u0301", "x"));
  EXPECT_THAT(split("a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  EXPECT_THAT(split("\U0001f600\U0001f601 \U0001d400"),
              ElementsAre("\U0001f600\U0001f601", " \U0001d400"));
}

TEST(WordSplitter, WhiteSpaceIsTheUnicodeProperty) {
  const std::vector<std::string> spaces = {
      "\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00a0",
      "\u1680", "\u2000", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  for (const auto& space : spaces) {
    EXPECT_THAT(split("a" + space + space + "\n"), ElementsAre("a", space + space + "\n"));
  }
  const std::vector<std::string> others = {"\u180e", "\u200b", "\ufeff",
                                           "\x1c",   "\x1f",   std::string(1, '\0')};
  for (const auto& other : others) {
    EXPECT_THAT(split("a" + other + other + "\n"), ElementsAre("a", other + other, "\n"));
  }
}

TEST(WordSplitter, ARunOfInvalidBytesIsAWord) {
  EXPECT_THAT(split("ab\xff\xfe cd"), ElementsAre("ab", "\xff\xfe", " cd"));
  EXPECT_THAT(split("ab \x80"), ElementsAre("ab", " ", "\x80"));
  EXPECT_THAT(split("\xe4\xb8"), ElementsAre("\xe4\xb8"));  // cut short
  EXPECT_THAT(split("\xe4\xb8"
                    "a"),
              ElementsAre("\xe4\xb8", "a"));
  // If these were decoded as characters, they would join the "!".
  const std::vector<std::string> forbidden = {
      "\xc0\xaf",         "\xc1\xbf",        "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",  // overlong
      "\xed\xa0\x80",     "\xed\xbf\xbf",                                         // surrogates
      "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"};                                    // above U+10FFFF
  for (const auto& bytes : forbidden) EXPECT_THAT(split("!" + bytes), ElementsAre("!", bytes));
  EXPECT_THAT(split("\xf4\x8f\xbf\xbf"
                    "\xff"),
              ElementsAre("\xf4\x8f\xbf\xbf", "\xff"));  // U+10FFFF itself is a character
}

TEST(WordSplitter, LongRunsDoNotUseTheStack) {
  const std::string letters(1 << 20, 'a');
  const std::string spaces(1 << 20, ' ');
  EXPECT_THAT(split(letters), ElementsAre(letters));
  EXPECT_THAT(split(spaces + "b"), ElementsAre(spaces.substr(1), " b"));
}

std::vector<std::pair<std::size_t, std::size_t>> matches(const std::string& pattern,
                                                         std::string_view text) {
  const WordSplitter splitter(pattern);
  MatchCursor cursor(splitter);
  cursor.restart(text);
  std::vector<std::pair<std::size_t, std::size_t>> found;
  while (const auto match = cursor.next()) found.emplace_back(match->begin, match->end);
  EXPECT_FALSE(cursor.next());
  return found;
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(MatchCursor, LeavesGaps) {
  EXPECT_EQ(matches("-", "-a--b-"), (Pairs{{0, 1}, {2, 3}, {3, 4}, {5, 6}}));
  EXPECT_EQ(matches("b", "aaa"), (Pairs{}));
  EXPECT_EQ(matches("b", ""), (Pairs{}));
  EXPECT_EQ(matches("(?<=a)b", "abb"), (Pairs{{1, 2}}));  // sees the text before it
}

TEST(MatchCursor, EmptyMatchesAdvanceByCharacters) {
  EXPECT_EQ(matches("", "\u4e16b"), (Pairs{{0, 0}, {3, 3}, {4, 4}}));
  EXPECT_EQ(matches("x*", "axxb"), (Pairs{{0, 0}, {1, 3}, {4, 4}}));
  EXPECT_EQ(matches("x*", ""), (Pairs{{0, 0}}));
  EXPECT_EQ(matches("$", "ab"), (Pairs{{2, 2}}));
}

TEST(WordCursor, TextBetweenMatchesIsAWord) {
  const auto words = [](const std::string& pattern, std::string_view text) {
    const WordSplitter splitter(pattern);
    WordCursor cursor(splitter, text);
    std::vector<std::string> found;
    for (auto word = cursor.next(); !word.empty(); word = cursor.next()) found.emplace_back(word);
    return found;
  };
  EXPECT_THAT(words("b+",
                    "abbac\xff"
                    "b"),
              ElementsAre("a", "bb", "ac", "\xff", "b"));
  EXPECT_THAT(words("", "ab"), ElementsAre("a", "b"));
  EXPECT_THAT(words("^", "ab"), ElementsAre("ab"));
}

TEST(WordSplitter, AnInvalidPatternIsAnError) {
  EXPECT_THAT(
      error_of<ConfigError>([] { WordSplitter("a(b", "file.json: node"); }),
      testing::AllOf(testing::StartsWith("file.json: node: "), testing::HasSubstr("byte 3")));
}

TEST(WordSplitter, LongRunsStayWithinTheLimit) {
  const std::string spaces(20'000'000, ' ');
  EXPECT_EQ(matches(pattern_named("llama3"), spaces + "x"),
            (Pairs{{0, spaces.size() - 1}, {spaces.size() - 1, spaces.size() + 1}}));
}

TEST(WordSplitter, ExcessiveBacktrackingIsStopped) {
  const std::string text = std::string(40, 'a') + "b";
  EXPECT_THAT(error_of<DataError>([&] { matches("(?:a+)+$", text); }),
              testing::HasSubstr("limit exceeded"));
  EXPECT_THAT(error_of<DataError>([&] { matches("(?:aa|a)+[cd]", std::string(1 << 22, 'a')); }),
              testing::HasSubstr("limit exceeded"));
}

TEST(LastWordEnd, BothSidesTogetherHaveTheSameWords) {
  const std::vector<std::string> pieces = {
      "a",      "b's",    "12",     "!",        " ",      "  ",     "\n",        "\r\n",
      "\t",     "\x01",   "\xff",   "\xe4\xb8", "\u4e16", "\u3002", "\u3000",    "\u00a0",
      "\u0301", "\u00e9", "\u180e", "\ufffd",   "'",      " the",   "\U0001f600"};
  const auto bert_words = [](std::string_view text) {
    std::vector<std::string> words;
    WordPieceWords(true).read(text, [&](std::string_view word) { words.emplace_back(word); });
    return words;
  };
  std::mt19937 random(4);
  int cut = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    const std::size_t end = last_word_end(text);
    if (end == 0) continue;
    ++cut;
    for (const auto& words_of : {std::function(split), std::function(bert_words)}) {
      auto words = words_of(text.substr(0, end));
      const auto rest = words_of(std::string_view(text).substr(end));
      words.insert(words.end(), rest.begin(), rest.end());
      EXPECT_EQ(words, words_of(text)) << text;
    }
  }
  EXPECT_GT(cut, 500);
}

TEST(LastWordEnd, IsTheLastOne) {
  EXPECT_EQ(last_word_end("one two three"), 7U);
  EXPECT_EQ(last_word_end("one two\n\n  "), 7U);
  EXPECT_EQ(last_word_end("\u4e16\u754c\u3002\n\u4e16"), 9U);
  for (const char* text : {"", " ", "one", " one", "\u3000 one", "\xff one"}) {
    EXPECT_EQ(last_word_end(text), 0U) << text;
  }
}

}  // namespace
}  // namespace phalanx
