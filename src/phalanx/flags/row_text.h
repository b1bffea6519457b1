#pragma once
// Shared by the views of rows: rows by section, and the text of a row's parts.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/flag_set.h"

namespace phalanx {

// Rows grouped by heading, headings in the order of their first rows.
struct FlagSection {
  std::string title;
  std::vector<const FlagRow*> rows;
};
std::vector<FlagSection> sections_of(const std::vector<const FlagRow*>& rows);

std::vector<const FlagRow*> rows_in_state(const std::vector<FlagRow>& rows, FlagState state);

// The values that a flag accepts, if they are a fixed list; else empty.
std::vector<std::string_view> allowed_values(const FlagSpec& spec);

// The default, if it is worth showing: not for switches, and not 0.
std::string telling_default(const FlagRow& row);

// The text with a full stop, if it ends without a mark.
std::string ended(std::string_view text);

// Capitalises a text that begins with a word.
std::string capitalized(std::string text);

// The flag's other names, and the version since which it has its state: "also --seed".
std::vector<std::string> remarks_on(const FlagSpec& spec);

// All that a row says about a flag that works, as sentences: help, bounds, what it needs, excludes
// and stands for, remarks.
std::string full_meaning(const FlagSpec& spec);

// "a", "a or b", "a, b or c".
std::string either_of(const std::vector<std::string_view>& words);

}  // namespace phalanx
