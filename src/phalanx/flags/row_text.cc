#include "phalanx/flags/row_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace phalanx {

std::vector<FlagSection> sections_of(const std::vector<const FlagRow*>& rows) {
  std::vector<FlagSection> sections;
  for (const FlagRow* row : rows) {
    auto section = std::ranges::find(sections, row->section, &FlagSection::title);
    if (section == sections.end()) section = sections.insert(section, {row->section, {}});
    section->rows.push_back(row);
  }
  return sections;
}

std::vector<const FlagRow*> rows_in_state(const std::vector<FlagRow>& rows, FlagState state) {
  std::vector<const FlagRow*> found;
  for (const FlagRow& row : rows) {
    if (row.spec.state == state) found.push_back(&row);
  }
  return found;
}

std::vector<std::string_view> allowed_values(const FlagSpec& spec) {
  return words_of(spec.choices.empty() ? spec.satisfied_by : spec.choices);
}

std::string telling_default(const FlagRow& row) {
  if (row.type == FlagType::kSwitch || row.default_text == "0") return "";
  return row.default_text;
}

std::string either_of(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return words.empty() ? "" : std::string(words[0]);
  return fmt::format("{} or {}", fmt::join(std::span(words).first(words.size() - 1), ", "),
                     words.back());
}

}  // namespace phalanx
