#include "phalanx/flags/row_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace phalanx {
namespace {

constexpr std::string_view kFirstVersion = "0.1";

std::string joined(std::string_view list, std::string_view between) {
  return fmt::format("{}", fmt::join(words_of(list), between));
}

// Bounds from here on only keep numbers within their types.
constexpr double kNoBound = 2147483647.0;

std::string range_sentence(const FlagRange& range) {
  const bool has_least = std::isfinite(range.least);
  const bool has_most = range.most < kNoBound;
  if (has_least && has_most && !range.excludes_least && !range.excludes_most) {
    return fmt::format(" From {} to {}.", range.least, range.most);
  }
  std::vector<std::string> bounds;
  if (has_least) {
    bounds.push_back(
        fmt::format("{} {}", range.excludes_least ? "above" : "at least", range.least));
  }
  if (has_most) {
    bounds.push_back(fmt::format("{} {}", range.excludes_most ? "below" : "at most", range.most));
  }
  if (bounds.empty()) return "";
  return fmt::format(" {}.", capitalized(fmt::format("{}", fmt::join(bounds, ", "))));
}

// The flags that a flag stands for; VALUE is its value.
std::string flags_meant_by(const FlagSpec& spec) {
  std::string flags(spec.stands_for);
  const std::size_t place = flags.find('@');
  if (place != std::string::npos) flags.replace(place, 1, "VALUE");
  return flags;
}

}  // namespace

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

std::string ended(std::string_view text) {
  std::string result(text);
  if (!result.empty() && std::string_view(".!?").find(result.back()) == std::string_view::npos) {
    result += '.';
  }
  return result;
}

std::string capitalized(std::string text) {
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_inside = [&](char c) { return is_small(c) || c == '-'; };
  const auto word = std::string_view(text).substr(0, text.find_first_of(" ,:;"));
  if (word.empty() || !is_small(word[0]) || !std::ranges::all_of(word, is_inside)) return text;
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::vector<std::string> remarks_on(const FlagSpec& spec) {
  std::vector<std::string> remarks;
  if (!spec.aliases.empty()) remarks.push_back("also " + joined(spec.aliases, ", "));
  if (!spec.old_names.empty()) remarks.push_back("formerly " + joined(spec.old_names, ", "));
  std::vector<std::string> keys;
  for (const std::string_view key : words_of(spec.yaml_keys)) {
    const bool is_negation = key.starts_with('!');
    keys.push_back(is_negation ? std::string(key.substr(1)) + ": false" : std::string(key));
  }
  if (!keys.empty()) remarks.push_back(fmt::format("in YAML also {}", fmt::join(keys, ", ")));
  if (spec.since != kFirstVersion) remarks.push_back(fmt::format("since version {}", spec.since));
  return remarks;
}

std::string full_meaning(const FlagSpec& spec) {
  std::string text = ended(spec.help);
  if (spec.required) text += " Required.";
  if (spec.required_to_train || !spec.required_unless.empty()) {
    text += spec.required_to_train ? " Required to train" : " Required";
    if (!spec.required_unless.empty()) text += ", or " + joined(spec.required_unless, " or ");
    text += ".";
  }
  text += range_sentence(spec.range);
  if (!spec.needs.empty()) text += fmt::format(" Needs {}.", joined(spec.needs, " or "));
  if (!spec.excludes.empty()) text += fmt::format(" Not with {}.", joined(spec.excludes, ", "));
  if (!spec.stands_for.empty()) text += fmt::format(" Stands for {}.", flags_meant_by(spec));
  if (!spec.same_values.empty()) text += fmt::format(" Also {}.", joined(spec.same_values, ", "));
  if (spec.accumulates) text += " Given twice, both count.";
  for (const auto& remark : remarks_on(spec)) text += fmt::format(" {}.", capitalized(remark));
  return text;
}

std::string either_of(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return words.empty() ? "" : std::string(words[0]);
  return fmt::format("{} or {}", fmt::join(std::span(words).first(words.size() - 1), ", "),
                     words.back());
}

}  // namespace phalanx
