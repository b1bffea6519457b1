#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "phalanx/base/error.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

YamlValue value(std::string key, std::string word, bool is_text) {
  return {.key = std::move(key), .words = {std::move(word)}, .is_text = is_text};
}

TEST(YamlText, BlockStyleAKeyALine) {
  EXPECT_EQ(yaml_text({{.heading = "network_size",
                        .values = {value("num_layers", "24", false), value("lr", "1e-05", false)}},
                       {.heading = "empty", .values = {}},
                       {.heading = "data",
                        .values = {{.key = "data_path",
                                    .words = {"0.3", "/data/a b"},
                                    .is_list = true,
                                    .is_text = true},
                                   {.key = "allow_changed", .words = {}, .is_list = true},
                                   value("bf16", "true", false),
                                   value("save", "runs/a-1", true)}}}),
            "network_size:\n"
            "  num_layers: 24\n"
            "  lr: 1e-05\n"
            "data:\n"
            "  data_path:\n"
            "    - \"0.3\"\n"
            "    - \"/data/a b\"\n"
            "  allow_changed: []\n"
            "  bf16: true\n"
            "  save: runs/a-1\n");
  EXPECT_EQ(yaml_text({}), "");
}

std::string scalar_of(const std::string& word, bool is_text) {
  const std::string text = yaml_text({{.heading = "h", .values = {value("k", word, is_text)}}});
  constexpr std::string_view kBefore = "h:\n  k: ";
  EXPECT_TRUE(text.starts_with(kBefore)) << text;
  return text.substr(kBefore.size(), text.size() - kBefore.size() - 1);
}

TEST(YamlText, TextIsQuotedWhereItCouldBeAnythingElse) {
  for (const char* word :
       {"",     "null",  "Null", "~",          "true", "False", "yes",   "NO",   "on",    "Off",
        "y",    "N",     "10",   "010",        "-1",   "+.5",   "1e5",   "0x10", "1_000", "12:30",
        ".inf", "-.INF", ".nan", "2020-01-01", "=",    "<<",    "-",     "- a",  "a: b",  "a:",
        "a #b", "#a",    " a",   "a ",         "&a",   "*a",    "!a",    "@a",   "`a",    "%a",
        "|",    ">",     "[a]",  "{a}",        "a,b]", "'a'",   "\"a\"", "?",    "? a",   ":",
        "---",  "...",   "a\nb", "a\tb",       "\\",   "é",     "${A}"}) {
    EXPECT_EQ(scalar_of(word, true).front(), '"') << word;
  }
  for (const char* word : {"a", "GPT2BPETokenizer", "/data/text.idx", "learned_absolute",
                           "runs/a-1", "zb-h1", "nope", "a,b", "a%b"}) {
    EXPECT_EQ(scalar_of(word, true), word);
  }
}

TEST(YamlText, NumbersAndSwitchesAreNotQuoted) {
  for (const char* word : {"10", "-1", "+.5", "2.5e-4", "true", "false", "969,30,1", "cosine"}) {
    EXPECT_EQ(scalar_of(word, false), word);
  }
  for (const char* word : {"", "null", "~", "NULL", "99, 1", "a: b", "-", "- 1", "é", "1 #"}) {
    EXPECT_EQ(scalar_of(word, false).front(), '"') << word;
  }
}

TEST(YamlText, OddCharactersAreEscaped) {
  EXPECT_EQ(scalar_of("a\"b\\c\nd\te\x04\x7f", true), R"("a\"b\\c\nd\u0009e\u0004\u007f")");
  EXPECT_EQ(scalar_of("é\u0085\u2028\ufeff😀", true), R"("é\u0085\u2028\ufeff😀")");
  EXPECT_EQ(scalar_of("${A} $${B} $C", true), R"("$${A} $$${B} $C")");
}

TEST(YamlText, WhatIsNoUtf8IsRefused) {
  EXPECT_THROW(scalar_of("/data/\xe9t\xe9", true), UsageError);
}

// --- What was written is read again.

// Pieces that mean something to YAML, or lie on the border of what its text may have.
constexpr std::string_view kPieces[] = {
    "a",          "b",    "Z",       "0",      "1",      "9",      "-",      "- ",     "+",
    ".",          "e",    "_",       "/",      " ",      "  ",     ":",      ": ",     "#",
    " #",         ",",    "?",       "? ",     "[",      "]",      "{",      "}",      "&",
    "*",          "!",    "|",       ">",      "%",      "@",      "`",      "'",      "\"",
    "\\",         "\n",   "\r",      "\r\n",   "\t",     "null",   "~",      "true",   "no",
    "---",        "...",  "\n---\n", "=",      "<<",     "${",     "}",      "$",      "${A}",
    "$${A}",      "\x01", "\x04",    "\x1b",   "\x7f",   "\u0080", "\u0085", "\u009f", "\u00a0",
    "é",          "€",    "\u2028",  "\u2029", "\ufeff", "\ufffd", "\ufffe", "\uffff", "😀",
    "\U0010ffff", "\\x",  "\\n",     "0x"};

class RandomSections {
 public:
  explicit RandomSections(unsigned seed) : engine_(seed) {}

  std::vector<YamlSection> draw() {
    int flags = 0;
    std::vector<YamlSection> sections(below(4));
    for (YamlSection& section : sections) {
      section.heading = "section_" + std::to_string(&section - sections.data());
      section.values.resize(below(4));
      for (YamlValue& value : section.values) {
        value.key = "flag_" + std::to_string(flags++);
        value.is_list = below(2) == 0;
        value.is_text = below(2) == 0;
        value.words.resize(value.is_list ? below(4) : 1);
        for (std::string& word : value.words) word = draw_word();
      }
    }
    return sections;
  }

 private:
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  std::string draw_word() {
    std::string word;
    for (auto pieces = below(6); pieces > 0; --pieces) word += kPieces[below(std::size(kPieces))];
    return word;
  }

  std::mt19937 engine_;
};

TEST(YamlText, WhatWasWrittenIsReadAgain) {
  RandomSections sections(11);
  for (int i = 0; i < 5000; ++i) {
    const auto written = sections.draw();
    const std::string text = yaml_text(written);
    std::vector<YamlValue> values;
    for (const auto& section : written) {
      values.insert(values.end(), section.values.begin(), section.values.end());
    }
    const auto read = parse_yaml(text, "run.yaml").entries;
    ASSERT_EQ(read.size(), values.size()) << text;
    for (std::size_t k = 0; k < read.size(); ++k) {
      ASSERT_EQ(read[k].key, values[k].key) << text;
      ASSERT_EQ(read[k].words, values[k].words) << text;
      ASSERT_EQ(read[k].is_list, values[k].is_list) << text;
    }
  }
}

// Keys are names of flags; but some of those mean something else to other readers.
TEST(YamlText, KeysAreQuotedWhereTheyNeedIt) {
  for (const char* key : {"no", "null", "1", "a b", "a: b", "-", "é"}) {
    const auto read =
        parse_yaml(yaml_text({{.heading = key, .values = {value(key, "x", true)}}}), "").entries;
    ASSERT_EQ(read.size(), 1U) << key;
    EXPECT_EQ(read[0].key, key);
  }
  EXPECT_THAT(yaml_text({{.heading = "h", .values = {value("no", "1", false)}}}),
              HasSubstr("  \"no\": 1\n"));
}

}  // namespace
}  // namespace phalanx
