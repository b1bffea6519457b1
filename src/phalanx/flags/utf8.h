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

// The character that begins at byte `at`; nothing where the bytes there are no UTF-8 (overlong
// forms, surrogates and what is above U+10FFFF are none).
std::optional<Utf8Character> utf8_character(std::string_view text, std::size_t at);

// Whether a text file may have the character: no control characters but tab and line ends.
bool is_printable(char32_t code);

}  // namespace phalanx
