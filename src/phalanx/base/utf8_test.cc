#include "phalanx/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace phalanx {
namespace {

TEST(Utf8, CharactersHaveACodeAndALength) {
  const std::string text = "aé€😀";
  std::size_t at = 0;
  for (const auto& [code, bytes] : {Utf8Character{U'a', 1}, Utf8Character{U'é', 2},
                                    Utf8Character{U'€', 3}, Utf8Character{U'😀', 4}}) {
    const auto character = utf8_character(text, at);
    ASSERT_TRUE(character);
    EXPECT_EQ(character->code, code);
    EXPECT_EQ(character->bytes, bytes);
    at += bytes;
  }
  EXPECT_EQ(at, text.size());
  EXPECT_EQ(utf8_character("\xf4\x8f\xbf\xbf", 0)->code, U'\U0010ffff');
}

TEST(Utf8, WhatIsNoCharacter) {
  for (const std::string text : {"\x80",              // the middle of one
                                 "\xc3",              // cut off
                                 "\xe2\x82",          // cut off
                                 "\xc3(",             // goes on with another
                                 "\xc0\xaf",          // '/' in two bytes
                                 "\xe0\x80\xaf",      // in three
                                 "\xf0\x80\x80\xaf",  // in four
                                 "\xed\xa0\x80",      // a surrogate
                                 "\xf4\x90\x80\x80",  // above the last
                                 "\xf8\x88\x80\x80\x80", "\xff", "\xfe"}) {
    EXPECT_FALSE(utf8_character(text, 0)) << text;
    EXPECT_EQ(first_foreign_byte("é/" + text), 3) << text;
  }
}

TEST(Utf8, BytesOfNoCharacterAreNamed) {
  EXPECT_EQ(first_foreign_byte("café/😀"), std::nullopt);
  EXPECT_EQ(with_foreign_bytes_named("café/😀"), "café/😀");
  EXPECT_EQ(with_foreign_bytes_named("caf\xe9/\xc3"), "caf\\xe9/\\xc3");
  EXPECT_EQ(with_foreign_bytes_named("\xff\xfe"), "\\xff\\xfe");
}

TEST(Utf8, ControlCharactersAreNotPrintable) {
  for (const char32_t code :
       {U'\t', U'\n', U'\r', U' ', U'~', U'\u0085', U'\u00a0', U'\u2028', U'\U0010fffd'}) {
    EXPECT_TRUE(is_printable(code)) << static_cast<unsigned>(code);
  }
  for (const char32_t code : {0x00U, 0x04U, 0x1bU, 0x7fU, 0x80U, 0x9fU, 0xfffeU, 0xffffU}) {
    EXPECT_FALSE(is_printable(code)) << static_cast<unsigned>(code);
  }
}

}  // namespace
}  // namespace phalanx
