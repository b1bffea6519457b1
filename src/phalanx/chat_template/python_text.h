#pragma once
// What Python's str does, on UTF-8: characters are code points.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::jinja {

// Bytes of the character that a not empty text begins or ends with. A byte that is no UTF-8 counts
// as one.
std::size_t first_character(std::string_view text);
std::size_t last_character(std::string_view text);
std::size_t count_of_characters(std::string_view text);
bool is_valid_utf8(std::string_view text);

// Bytes of white space (str.isspace) that the text begins or ends with.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Without `characters`: white space.
std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          Side side);

// At most `most` cuts, any number if negative. An empty separator cuts at runs of white space.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t most);
// At most `most` times, any number if negative.
std::string replaced(std::string_view text, std::string_view what, std::string_view with,
                     std::int64_t most);

enum class Casing { kUpper, kLower, kTitle, kCapitalize };
// Nothing where the text has characters beyond ASCII.
std::optional<std::string> in_case(std::string_view text, Casing casing);

// As repr() writes them.
void append_repr(std::string_view text, std::string& out);
void append_repr(double number, std::string& out);
// As json.dumps writes it.
void append_json(std::string_view text, bool as_ascii, std::string& out);

}  // namespace phalanx::jinja
