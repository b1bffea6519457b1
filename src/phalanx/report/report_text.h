#pragma once
// Values as a report's reader sees them, and the small pieces of the page.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

// "45.2 s", "12 min 5 s", "3 h 12 min", "2 d 4 h".
std::string duration_text(double seconds);
// "2026-01-31 12:00:00" of ISO 8601; as it is where it is no such time.
std::string readable_time(std::string_view iso);
// "57.3 %".
std::string percent_text(double share);

// The parts below escape what they are given.

// <h2>.
std::string heading(std::string_view text);
// A paragraph that says what is not there, and why.
std::string missing_text(std::string_view text);
// Names and values below each other; empty values are left out.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
std::string facts_list(const NamedTexts& facts);

// A table; the first column is text, the others numbers, unless the column's heading begins
// with ':', which is not shown.
struct PageTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
  std::string style;  // class, ours
};
std::string to_html(const PageTable& table);

// Parts side by side, each a share of the whole width; `colour`: classes b0 ... b8.
inline constexpr int kBarColours = 9;
struct BarPart {
  std::string name;
  double share = 0;
  int colour = 0;
};
std::string stacked_bar(const std::vector<BarPart>& parts);
std::string bar_legend(const std::vector<BarPart>& parts);

}  // namespace phalanx
