#include "phalanx/tokenizer/patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/test_files.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words_of(const std::string& pattern, std::string_view text) {
  const WordSplitter splitter(pattern);
  WordCursor cursor(splitter, text);
  std::vector<std::string> words;
  for (auto word = cursor.next(); !word.empty(); word = cursor.next()) words.emplace_back(word);
  return words;
}

std::vector<std::string> by_name(std::string_view name, std::string_view text) {
  return words_of(pattern_named(name), text);
}

std::vector<std::string> by_oniguruma(std::string_view pattern, std::string_view text) {
  return words_of(pattern_of_oniguruma(pattern, "here"), text);
}

TEST(NamedPatterns, Compile) {
  for (const auto name : pattern_names()) {
    EXPECT_THAT(by_name(name, "ab cd"), ElementsAre("ab", " cd")) << name;
  }
  EXPECT_THAT(error_of<ConfigError>([] { pattern_named("gpt4"); }),
              HasSubstr("'gpt4' is not one of gpt2 cl100k o200k llama3 qwen2 v1 v2"));
}

// Expected: the result of tiktoken 0.14 with the same patterns.
TEST(NamedPatterns, SplitAsTiktokenDoes) {
  constexpr std::string_view kText = "It'S HelloWorld's 12345 !!\n\n x  \n ";
  EXPECT_THAT(by_name("gpt2", kText), ElementsAre("It", "'", "S", " HelloWorld", "'s", " 12345",
                                                  " !!", "\n\n", " x", "  \n "));
  EXPECT_THAT(by_name("cl100k", kText), ElementsAre("It", "'S", " HelloWorld", "'s", " ", "123",
                                                    "45", " !!\n\n", " x", "  \n "));
  EXPECT_THAT(by_name("llama3", kText), ElementsAre("It", "'S", " HelloWorld", "'s", " ", "123",
                                                    "45", " !!\n\n", " x", "  \n", " "));
  EXPECT_THAT(by_name("qwen2", kText), ElementsAre("It", "'S", " HelloWorld", "'s", " ", "1", "2",
                                                   "3", "4", "5", " !!\n\n", " x", "  \n", " "));
  EXPECT_THAT(by_name("o200k", kText), ElementsAre("It'S", " Hello", "World's", " ", "123", "45",
                                                   " !!\n\n", " x", "  \n", " "));
  EXPECT_THAT(by_name("v1", kText), ElementsAre("It", "'S", " HelloWorld", "'s", " ", "1", "2", "3",
                                                "4", "5", " !!\n\n", " x", "  \n", " "));
  EXPECT_THAT(by_name("v2", kText), ElementsAre("It", "'S", " Hello", "World", "'s", " ", "1", "2",
                                                "3", "4", "5", " !!\n\n", " x", "  \n", " "));
  EXPECT_THAT(by_name("llama3", "he'\u017f"), ElementsAre("he", "'\u017f"));  // folds to s
}

TEST(OnigurumaPatterns, HaveTheMeaningOfOniguruma) {
  // An interval with a plus is a repetition, not possessive.
  EXPECT_THAT(by_oniguruma(R"(\d{1,2}+)", "x12345y"), ElementsAre("x", "12345", "y"));
  EXPECT_THAT(by_oniguruma("(?:ab){2}+", "ababababab"), ElementsAre("abababab", "ab"));
  EXPECT_THAT(by_oniguruma("a{2}?", "aaab"), ElementsAre("aa", "a", "b"));
  EXPECT_THAT(by_oniguruma("a{1,3}?", "aab"), ElementsAre("a", "a", "b"));
  EXPECT_THAT(by_oniguruma("a{,2}", "aaab"), ElementsAre("aa", "a", "b"));
  EXPECT_THAT(by_oniguruma("a{x", "ba{x"), ElementsAre("b", "a{x"));
  EXPECT_THAT(by_oniguruma("\u00e9{2}+b", "a\u00e9\u00e9\u00e9\u00e9b"),
              ElementsAre("a",
                          "\u00e9\u00e9\u00e9\u00e9"
                          "b"));
  // Ends of lines.
  EXPECT_THAT(by_oniguruma("^", "a\nb\n"), ElementsAre("a\n", "b\n"));
  EXPECT_THAT(by_oniguruma("$", "a\nb\n"), ElementsAre("a", "\nb", "\n"));
  EXPECT_THAT(by_oniguruma(R"(\s+$)", "a  \n b"), ElementsAre("a", "  ", "\n b"));
  EXPECT_THAT(by_oniguruma("[$^]", "a$^"), ElementsAre("a", "$", "^"));
  EXPECT_THAT(by_oniguruma("x*", "axxb"), ElementsAre("a", "xx", "b"));
  // Sets.
  EXPECT_THAT(by_oniguruma(R"(\s)", "a\u0085b\u180ec"), ElementsAre("a", "\u0085", "b\u180ec"));
  EXPECT_THAT(by_oniguruma(R"([^\S\n])", "a \nb"), ElementsAre("a", " ", "\nb"));
  EXPECT_THAT(by_oniguruma(R"(\w+)", "a\u0301\u203f\u2160\u24d0\u00b2"),
              ElementsAre("a\u0301\u203f\u2160\u24d0\u00b2"));
  EXPECT_THAT(by_oniguruma(R"([\w]+)", "a\u0301\u203f\u2160\u24d0\u00b2"),
              ElementsAre("a\u0301\u203f\u2160\u24d0", "\u00b2"));
  EXPECT_THAT(by_oniguruma(R"(\bb)", "ab b"), ElementsAre("ab ", "b"));
  EXPECT_THAT(by_oniguruma(R"(\h+)", "xyzfF0"), ElementsAre("xyz", "fF0"));
  EXPECT_THAT(by_oniguruma(R"([\v]\x41\u0042)", "a\vAB\n"), ElementsAre("a", "\vAB", "\n"));
  EXPECT_THAT(by_oniguruma(R"(\p{Greek}+)", "a\u03b1\u0342"),  // U+0342 is Inherited
              ElementsAre("a", "\u03b1", "\u0342"));
  EXPECT_THAT(by_oniguruma(R"(\p{^L}+)", "ab12"), ElementsAre("ab", "12"));
  EXPECT_THAT(by_oniguruma("(?i:ab)|C", "aBcC"), ElementsAre("aB", "c", "C"));
}

TEST(OnigurumaPatterns, UnsupportedSyntaxIsNamed) {
  const auto error = [](std::string_view pattern) {
    return error_of<ConfigError>([&] {
      const WordSplitter splitter(pattern_of_oniguruma(pattern, "f.json: a.b"), "f.json: a.b");
    });
  };
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"[a&&b]", "&&"},
      {"[[:alpha:]]", "[:name:]"},
      {"[a[bc]]", "a set inside a set"},
      {"[]a]", "an empty set"},
      {"[ab", "a set without its end"},
      {R"([\W])", "'\\W' inside a set"},
      {R"(\p{Letterish})", "the property 'Letterish'"},
      {R"(\p{L&})", "the property 'L&'"},
      {R"(\pL)", "a property without {name}"},
      {R"(\p{L)", "a property without {name}"},
      {R"(a\Kb)", "'\\K'"},
      {R"(a\Gb)", "'\\G'"},
      {R"((a)\1)", "'\\1'"},
      {R"(\x)", "an escape"},
      {R"(\xff)", "a byte that is no character"},
      {R"(\x{zz})", "an escape"},
      {"a\\", "a backslash at the end"},
      {"(?m:.)", "'(?m:'"},
      {"a(?i)b", "(?i) behind the start"},
      {"(*NO_JIT)a", "'(*'"},
      {"(?<name>a)", "'(?<n'"},
      {"(a", "a group without its end"},
      {"a)", "')' without its beginning"},
      {"*a", "a repetition of nothing"},
      {"^+", "a repetition of nothing"},
      {"a++?", "a repeated repetition"},
      {"a+{2}", "a repeated repetition"},
      {std::string(200, '(') + std::string(200, ')'), "a group this deep"},
      {"a{3,2}", "out of order"},
      {"a{99999}", "too big"},
  };
  for (const auto& [pattern, reason] : refused) {
    EXPECT_THAT(error(pattern), AllOf(testing::StartsWith("f.json: a.b: "), HasSubstr(reason)))
        << pattern;
  }
}

}  // namespace
}  // namespace phalanx
