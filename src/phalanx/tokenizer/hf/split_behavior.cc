#include "phalanx/tokenizer/hf/split_behavior.h"

#include <algorithm>

namespace phalanx {
namespace {

struct Part {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

// Matches and what lies between, in order.
std::vector<Part> parts_of(const std::vector<TextMatch>& matches, std::size_t size, bool invert) {
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  std::size_t done = 0;
  for (const TextMatch& match : matches) {
    if (done != match.begin) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done != size) parts.push_back({done, size, invert});
  return parts;
}

// Joins neighbours where joins(previous is a match, this is a match) says so.
template <typename Joins>
std::vector<Part> joined(const std::vector<Part>& parts, Joins&& joins) {
  std::vector<Part> result;
  bool previous = false;
  for (const Part& part : parts) {
    if (!result.empty() && joins(previous, part.is_match)) {
      result.back().begin = std::min(result.back().begin, part.begin);
      result.back().end = std::max(result.back().end, part.end);
    } else {
      result.push_back(part);
    }
    previous = part.is_match;
  }
  return result;
}

bool starts_delimiter(bool previous, bool now) { return now && !previous; }

}  // namespace

SplitBehavior read_split_behavior(const JsonNode& node) {
  const std::string name = node.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.refuse(
      "{} is not supported; it may be Removed, Isolated, MergedWithPrevious, "
      "MergedWithNext or Contiguous",
      shown_text(name));
}

void split_at(const std::vector<TextMatch>& matches, std::size_t size, SplitBehavior behavior,
              bool invert, const std::function<void(std::size_t, std::size_t)>& add) {
  std::vector<Part> parts = parts_of(matches, size, invert);
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      break;
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kMergedWithPrevious:
      parts = joined(parts, starts_delimiter);
      break;
    case SplitBehavior::kMergedWithNext:
      std::ranges::reverse(parts);
      parts = joined(parts, starts_delimiter);
      std::ranges::reverse(parts);
      break;
    case SplitBehavior::kContiguous:
      parts = joined(parts, [](bool previous, bool now) { return previous == now; });
      break;
  }
  for (const Part& part : parts) add(part.begin, part.end);
}

char32_t read_replacement(const JsonNode& node) { return node["replacement"].character(); }

std::string read_prepend_scheme(const JsonNode& node) {
  const auto scheme = node.find("prepend_scheme");
  if (!scheme) return node.flag_or("add_prefix_space", true) ? "always" : "never";
  std::string name = scheme->text();
  if (name != "always" && name != "first" && name != "never") {
    scheme->refuse("{} is not supported; it may be always, first or never", shown_text(name));
  }
  return name;
}

}  // namespace phalanx
