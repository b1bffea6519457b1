#include "phalanx/tokenizer/token_places.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/test_support.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/hf/hf_tokenizer.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Byte-level BPE without merges: the id of a byte is its number. Behind it: <s>, and a token that
// swallows blanks around it.
std::string byte_level(std::string_view others) {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string symbol = symbols_from_bytes(std::string(1, static_cast<char>(byte)));
    if (symbol == "\"" || symbol == "\\") symbol = "\\" + symbol;
    vocabulary += fmt::format("{}\"{}\": {}", byte == 0 ? "" : ", ", symbol, byte);
  }
  return fmt::format(
      R"({{"version": "1.0", {} "added_tokens": [
        {{"id": 256, "content": "<s>", "special": true, "normalized": false}},
        {{"id": 257, "content": "<u>", "special": true, "normalized": false, "lstrip": true,
          "rstrip": true}}],
      "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}},
      "decoder": {{"type": "ByteLevel"}},
      "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}})",
      others, vocabulary);
}

std::vector<TokenPlace> places_of(const std::string& json, std::string_view text) {
  const HuggingFaceTokenizer tokenizer(json, "tokenizer.json");
  return TokenPlaces(tokenizer).of(text, tokenizer.encode(text, {.parse_special = true}));
}

TEST(TokenPlaces, BytesOfACharacterHaveTheirOwnPlaces) {
  EXPECT_THAT(places_of(byte_level(""), "a\xc3\xa9<s> b"),
              ElementsAre(TokenPlace{0, 1}, TokenPlace{1, 2}, TokenPlace{2, 3}, TokenPlace{3, 6},
                          TokenPlace{6, 7}, TokenPlace{7, 8}));
  // U+FFFD itself is no byte that was not decoded.
  EXPECT_THAT(places_of(byte_level(""), "\xef\xbf\xbdz"),
              ElementsAre(TokenPlace{0, 1}, TokenPlace{1, 2}, TokenPlace{2, 3}, TokenPlace{3, 4}));
}

TEST(TokenPlaces, BlanksThatATokenSwallowsAreNowhere) {
  EXPECT_THAT(places_of(byte_level(""), "a <u>\n b <u>  "),
              ElementsAre(TokenPlace{0, 1}, TokenPlace{2, 5}, TokenPlace{7, 8}, TokenPlace{9, 12}));
}

TEST(TokenPlaces, ComposedCharactersComeFromAllThatTheyAreMadeOf) {
  const std::string json = byte_level(R"("normalizer": {"type": "NFC"},)");
  // e and an acute accent are one character of two bytes; a Hangul syllable of three.
  EXPECT_THAT(places_of(json, "xe\xcc\x81y"),
              ElementsAre(TokenPlace{0, 1}, TokenPlace{1, 4}, TokenPlace{1, 4}, TokenPlace{4, 5}));
  EXPECT_THAT(places_of(json, "\xe1\x84\x80\xe1\x85\xa1z"),
              ElementsAre(TokenPlace{0, 6}, TokenPlace{0, 6}, TokenPlace{0, 6}, TokenPlace{6, 7}));
}

TEST(TokenPlaces, ABlankThatWasAddedIsNowhere) {
  // As Llama 2's: a blank before each text, and bytes for what has no piece.
  const std::string json = R"({"version": "1.0",
      "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
      "added_tokens": [{"id": 1, "content": "<s>", "special": true, "normalized": false}],
      "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
        "vocab": {"<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "<0xC3>": 6, "<0xA9>": 7},
        "merges": ["▁ a"]}})";
  EXPECT_THAT(places_of(json, "<s>ab a\xc3\xa9"),
              ElementsAre(TokenPlace{0, 3}, TokenPlace{3, 4}, TokenPlace{4, 5}, TokenPlace{5, 7},
                          TokenPlace{7, 8}, TokenPlace{8, 9}));
  EXPECT_THAT(places_of(json, " a"), ElementsAre(TokenPlace{0, 1}, TokenPlace{1, 2}));
}

TEST(TokenPlaces, ATokenizerThatChangesTextIsRefused) {
  const HuggingFaceTokenizer tokenizer(byte_level(R"("normalizer": {"type": "Lowercase"},)"),
                                       "tokenizer.json");
  EXPECT_THAT(
      error_of<DataError>([&] { TokenPlaces(tokenizer).of("abC", tokenizer.encode("abC")); }),
      HasSubstr("token 2 is not what the text has at byte 2"));
}

}  // namespace
}  // namespace phalanx
