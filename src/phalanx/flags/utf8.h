#pragma once
// UTF-8, as far as text files of flags need it.

#include <cstddef>
#include <optional>
#include <string_view>

namespace phalanx {

struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;
};

// The character that begins at byte `at`; nothing if the bytes are not UTF-8 (overlong forms,
// surrogates and values above U+10FFFF are not).
std::optional<Utf8Character> utf8_character(std::string_view text, std::size_t at);

// Whether a text file may hold the character: all but control characters other than tab and line
// ends.
bool is_printable(char32_t code);

}  // namespace phalanx
