#pragma once
// What the views of rows have in common: rows by section, and how their parts are written.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/flag_set.h"

namespace phalanx {

// The rows of one heading together, headings in the order in which they were begun.
struct FlagSection {
  std::string title;
  std::vector<const FlagRow*> rows;
};
std::vector<FlagSection> sections_of(const std::vector<const FlagRow*>& rows);

std::vector<const FlagRow*> rows_in_state(const std::vector<FlagRow>& rows, FlagState state);

// The only values that a flag takes; empty where there are others.
std::vector<std::string_view> allowed_values(const FlagSpec& spec);

// The default where it tells something: not of switches, not 0.
std::string telling_default(const FlagRow& row);

// "a", "a or b", "a, b or c".
std::string either_of(const std::vector<std::string_view>& words);

}  // namespace phalanx
