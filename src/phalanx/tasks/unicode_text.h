#pragma once
// Python's string functions, which define how evaluation files are read: what white space is, how
// it is removed, and where words are.

#include <string>
#include <string_view>

namespace phalanx {

// Python's str.isspace() of a character.
bool is_space(char32_t code);

// str.strip(): the text without white space at both ends.
std::string_view strip(std::string_view text);

// The last word of str.split(); empty where the text is only white space.
std::string_view last_word(std::string_view text);

// re.sub(r"\s+", " ", text).
std::string collapse_spaces(std::string_view text);

// str.replace(): every occurrence, from the left.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

// A whole file, which must be UTF-8: DataError that names the byte, else as read_file().
std::string read_text_file(const std::string& path);

}  // namespace phalanx
