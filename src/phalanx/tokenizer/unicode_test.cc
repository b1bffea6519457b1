#include "phalanx/tokenizer/unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters;
  while (!text.empty()) characters.push_back(take_character(text));
  return characters;
}

TEST(Utf8, EveryCharacterRoundTrips) {
  for (char32_t character = 0; character <= 0x10ffff; character += character < 0x3000 ? 1 : 7) {
    if (character >= 0xd800 && character <= 0xdfff) continue;
    std::string text = utf8_of(character);
    EXPECT_EQ(utf8_length(text), text.size());
    EXPECT_THAT(characters_of(text + "a"), ElementsAre(character, U'a'));
    // Without the last byte, each remaining byte is invalid alone.
    if (text.size() > 1) {
      text.pop_back();
      EXPECT_EQ(characters_of(text), std::vector<char32_t>(text.size(), 0xfffd));
    }
  }
}

TEST(Utf8, InvalidBytesAreReplacedOneByOne) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("aé日😀"));
  for (const std::string bad : {"\x80", "\xff", "\xc1\x81", "\xe0\x9f\xbf", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf", "\xe6\x97", "\xf5"}) {
    EXPECT_FALSE(is_utf8("a" + bad));
    std::string expected = "a";
    for (std::size_t i = 0; i < bad.size(); ++i) expected += "\uFFFD";
    EXPECT_EQ(repaired_utf8("a" + bad + "é"), expected + "é");
  }
  EXPECT_EQ(count_characters("aé日😀\xff\xfe"), 6U);
}

TEST(Utf8, InvalidBytesAreReplacedByLongestPrefix) {
  const std::string bad = "\uFFFD";
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::string>>{{"aé日😀", "aé日😀"},
                                                        {"\xc3", bad},
                                                        {"\xc3\xc3\xa9", bad + "é"},
                                                        {"\xe6\x97", bad},
                                                        {"\xe6\x97x", bad + "x"},
                                                        {"\xf0\x9f\x98", bad},
                                                        {"\xf0\x9f\x98\xf0\x9f", bad + bad},
                                                        {"\xf0\x8f\xbf", bad + bad + bad},
                                                        {"\xed\xa0\x80", bad + bad + bad},
                                                        {"\xe0\x9f", bad + bad},
                                                        {"\xff\xc1\x80", bad + bad + bad}}) {
    EXPECT_EQ(repaired_utf8_by_sequences(text), expected);
  }
}

TEST(Unicode, Categories) {
  EXPECT_EQ(general_category(U'A'), "Lu");
  EXPECT_EQ(general_category(0x5d0), "Lo");
  EXPECT_EQ(general_category(0x301), "Mn");
  EXPECT_EQ(general_category(0x200b), "Cf");
  EXPECT_EQ(general_category(0xe000), "Co");
  EXPECT_EQ(general_category(0x378), "Cn");
  EXPECT_EQ(general_category(0xab), "Pi");
  EXPECT_EQ(general_category(0x203f), "Pc");
  EXPECT_EQ(general_category(0x20ac), "Sc");
  for (const char32_t c : {U'½', U'٣', U'Ⅷ', U'²', U'7'}) EXPECT_TRUE(is_number(c));
}

TEST(Unicode, Properties) {
  for (const char32_t c : {U' ', U'\t', U'\u0085', U'\u00a0', U'\u3000', U'\u2028'}) {
    EXPECT_TRUE(is_white_space(c));
  }
  for (const char32_t c : {U'\u180e', U'\u200b', U'\u001c', U'a'}) EXPECT_FALSE(is_white_space(c));
  for (const char32_t c : {U'\u0301', U'‿', U'\u200d', U'Ⅷ', U'ⓐ', U'_', U'7', U'中'}) {
    EXPECT_TRUE(is_word_character(c));
  }
  for (const char32_t c : {U'²', U'-', U' ', U'€'}) EXPECT_FALSE(is_word_character(c));
  for (const char32_t c : {U'$', U'+', U'`', U'~', U'\u2019', U'。'}) {
    EXPECT_TRUE(is_bert_punctuation(c));
  }
  for (const char32_t c : {U'€', U'a', U'0', U' ', U'²', U'\u007f'}) {
    EXPECT_FALSE(is_bert_punctuation(c));
  }
  EXPECT_TRUE(is_cjk_ideograph(U'中'));
  EXPECT_FALSE(is_cjk_ideograph(U'か'));
  EXPECT_FALSE(is_cjk_ideograph(U'한'));
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalized("caf\u00e9", NormalForm::kNfd), "cafe\u0301");
  EXPECT_EQ(normalized("cafe\u0301", NormalForm::kNfc), "caf\u00e9");
  EXPECT_EQ(normalized("ﬁ\u00b2", NormalForm::kNfc), "ﬁ\u00b2");
  EXPECT_EQ(normalized("ﬁ\u00b2", NormalForm::kNfkc), "fi2");
  EXPECT_EQ(normalized("각", NormalForm::kNfkd), "\u1100\u1161\u11a8");
  EXPECT_EQ(normalized("", NormalForm::kNfkc), "");
}

TEST(Unicode, LowerCase) {
  EXPECT_EQ(lower_case("ΣΙΣ İÉ"), "σις i\u0307é");
  EXPECT_EQ(lower_case_of_characters("ΣΙΣ İÉ"), "σισ i\u0307é");
}

}  // namespace
}  // namespace phalanx
