#pragma once
// Texts as Python sees them, whose string functions define what evaluation files mean: what counts
// as white space, how blanks are taken off and how words are cut.

#include <string>
#include <string_view>

namespace phalanx {

// Python's str.isspace() of a character.
bool is_space(char32_t code);

// str.strip(): without white space at both ends.
std::string_view strip(std::string_view text);

// The last of str.split(): what is behind the last white space, which is not at the end; empty
// where there is none but white space.
std::string_view last_word(std::string_view text);

// re.sub(r"\s+", " ", text).
std::string collapse_spaces(std::string_view text);

// str.replace(): every occurrence, from the left.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

// A whole file, which must be UTF-8: DataError that names the byte, else as read_file().
std::string read_text_file(const std::string& path);

}  // namespace phalanx
