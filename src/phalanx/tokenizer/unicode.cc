#include "phalanx/tokenizer/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// ICU counts in int32. Its results must fit, too, and NFKD may make 18 characters from one.
icu::StringPiece piece_of(std::string_view text) {
  constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max() / 18;
  if (text.size() > kMostBytes) {
    throw DataError("one text of {} bytes; the limit is {}", text.size(), kMostBytes);
  }
  return {text.data(), static_cast<std::int32_t>(text.size())};
}

void check_icu(UErrorCode status) {
  if (U_FAILURE(status)) throw SystemError("ICU: {}", u_errorName(status));
}

const icu::Normalizer2& normalizer_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* normalizer = [&] {
    switch (form) {
      case NormalForm::kNfc:
        return icu::Normalizer2::getNFCInstance(status);
      case NormalForm::kNfd:
        return icu::Normalizer2::getNFDInstance(status);
      case NormalForm::kNfkc:
        return icu::Normalizer2::getNFKCInstance(status);
      default:
        return icu::Normalizer2::getNFKDInstance(status);
    }
  }();
  check_icu(status);
  return *normalizer;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<std::uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

// Bytes at the start of an ill-formed text that a well-formed character could begin with; 1 where
// there are none.
std::size_t incomplete_length(std::string_view text) {
  std::size_t longest = 1;
  for (std::size_t size = 2; size <= std::min<std::size_t>(text.size(), 3); ++size) {
    std::string longer(text.substr(0, size));
    // What may follow the second byte is the same for all: 80 to BF.
    while (longer.size() < 4 && utf8_length(longer) == 0) longer.push_back('\x80');
    if (utf8_length(longer) > size) longest = size;
  }
  return longest;
}

// The text with U+FFFD for each size(rest) bytes where rest is ill-formed.
template <typename Size>
std::string repaired(std::string_view text, Size&& size) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      append_utf8(kReplacement, result);
      text.remove_prefix(size(text));
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

UChar32 icu_character(char32_t character) { return static_cast<UChar32>(character); }

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool second = continues(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = continues(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string repaired_utf8(std::string_view text) {
  return repaired(text, [](std::string_view) { return std::size_t{1}; });
}

std::string repaired_utf8_by_sequences(std::string_view text) {
  return repaired(text, incomplete_length);
}

char32_t take_character(std::string_view& text) {
  const auto byte = [text](std::size_t i) {
    return static_cast<char32_t>(static_cast<std::uint8_t>(text[i]));
  };
  const std::size_t length = utf8_length(text);
  char32_t character = kReplacement;
  switch (length) {
    case 1:
      character = byte(0);
      break;
    case 2:
      character = (byte(0) & 0x1fU) << 6 | (byte(1) & 0x3fU);
      break;
    case 3:
      character = (byte(0) & 0x0fU) << 12 | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU);
      break;
    case 4:
      character = (byte(0) & 0x07U) << 18 | (byte(1) & 0x3fU) << 12 | (byte(2) & 0x3fU) << 6 |
                  (byte(3) & 0x3fU);
      break;
    default:
      break;
  }
  text.remove_prefix(length == 0 ? 1 : length);
  return character;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) take_character(text);
  return count;
}

void append_utf8(char32_t character, std::string& text) {
  const auto push = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    push(character);
    return;
  }
  if (character < 0x800) {
    push(0xc0U | character >> 6);
  } else {
    if (character < 0x10000) {
      push(0xe0U | character >> 12);
    } else {
      push(0xf0U | character >> 18);
      push(0x80U | (character >> 12 & 0x3fU));
    }
    push(0x80U | (character >> 6 & 0x3fU));
  }
  push(0x80U | (character & 0x3fU));
}

std::string utf8_of(char32_t character) {
  std::string text;
  append_utf8(character, text);
  return text;
}

std::string_view general_category(char32_t character) {
  // In the order of ICU's UCharCategory.
  static constexpr std::array<std::string_view, U_CHAR_CATEGORY_COUNT> kNames = {
      "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp",
      "Cc", "Cf", "Co", "Cs", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"};
  return kNames.at(static_cast<std::size_t>(u_charType(icu_character(character))));
}

bool is_white_space(char32_t character) { return u_isUWhiteSpace(icu_character(character)) != 0; }

bool is_word_character(char32_t character) {
  const std::string_view category = general_category(character);
  return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Pc" ||
         u_isUAlphabetic(icu_character(character)) != 0 ||
         u_hasBinaryProperty(icu_character(character), UCHAR_JOIN_CONTROL) != 0;
}

bool is_bert_punctuation(char32_t character) {
  if (character < 0x80) {
    return (character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
           (character >= 91 && character <= 96) || (character >= 123 && character <= 126);
  }
  return general_category(character)[0] == 'P';
}

bool is_cjk_ideograph(char32_t character) {
  struct Block {
    char32_t first;
    char32_t last;
  };
  static constexpr std::array kBlocks = {Block{0x3400, 0x4dbf},   Block{0x4e00, 0x9fff},
                                         Block{0xf900, 0xfaff},   Block{0x20000, 0x2a6df},
                                         Block{0x2a700, 0x2b73f}, Block{0x2b740, 0x2b81f},
                                         Block{0x2b820, 0x2ceaf}, Block{0x2f800, 0x2fa1f}};
  for (const Block& block : kBlocks) {
    if (character >= block.first && character <= block.last) return true;
  }
  return false;
}

std::string normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  normalizer_of(form).normalizeUTF8(0, piece_of(text), sink, nullptr, status);
  check_icu(status);
  return result;
}

std::string lower_case_of_characters(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = take_character(text);
    append_utf8(static_cast<char32_t>(u_tolower(icu_character(character))), lower);
    // The one character whose lower case is two: the dot above stays (SpecialCasing.txt).
    if (character == 0x130) append_utf8(0x307, lower);
  }
  return lower;
}

std::string lower_case(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  icu::CaseMap::utf8ToLower("", 0, piece_of(text), sink, nullptr, status);
  check_icu(status);
  return result;
}

}  // namespace phalanx
