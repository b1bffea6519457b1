#pragma once
// Values as texts for a report's reader, and the small pieces of the page in HTML.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

// "45.2 s", "12 min 5 s", "3 h 12 min", "2 d 4 h".
std::string duration_text(double seconds);
// "2026-01-31 12:00:00" for a time in ISO 8601; other texts stay as they are.
std::string readable_time(std::string_view iso);
// "57.3 %".
std::string percent_text(double share);

// The functions below escape their texts.

// <h2>.
std::string heading(std::string_view text);
// A paragraph that says what is missing, and why.
std::string missing_text(std::string_view text);
// A list of names and values; empty values are left out.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
std::string facts_list(const NamedTexts& facts);

// The first column is text. Other columns are numbers, unless the heading begins with ':', which is
// not shown: then they are text.
struct PageTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
  std::string style;  // class, ours
};
std::string to_html(const PageTable& table);

// How many colours parts of a bar have: the classes b0 to b9.
inline constexpr int kBarColours = 10;
// A part of a bar: its share of the width, and its colour.
struct BarPart {
  std::string name;
  double share = 0;
  int colour = 0;
};
std::string stacked_bar(const std::vector<BarPart>& parts);
std::string bar_legend(const std::vector<BarPart>& parts);

}  // namespace phalanx
