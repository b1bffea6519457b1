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

// "a", "a or b", "a, b or c".
std::string either_of(const std::vector<std::string_view>& words);

}  // namespace phalanx
