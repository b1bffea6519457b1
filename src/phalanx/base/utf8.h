#pragma once
// UTF-8, as far as flags, their files and paths need it.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace phalanx {

struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;
};

// The character that begins at byte `at`; nothing if the bytes are not UTF-8 (overlong forms,
// surrogates and values above U+10FFFF are not).
std::optional<Utf8Character> utf8_character(std::string_view text, std::size_t at);

// The place of the first byte that belongs to no character; nothing where the text is UTF-8.
std::optional<std::size_t> first_foreign_byte(std::string_view text);
// The text for messages: \xff stands for a byte that belongs to no character.
std::string with_foreign_bytes_named(std::string_view text);

// Whether a text file may hold the character: all but control characters other than tab and line
// ends.
bool is_printable(char32_t code);

}  // namespace phalanx
