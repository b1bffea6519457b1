#include "phalanx/corpus/documents.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kLineBreaks = "\r\n";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

std::string_view without_outer_breaks(std::string_view text) {
  const auto first = text.find_first_not_of(kLineBreaks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kLineBreaks) - first + 1);
}

void visit_piece(std::string_view piece, const DocumentVisitor& visit) {
  piece = without_outer_breaks(piece);
  if (!is_blank(piece)) visit(piece);
}

// The position after the last line break; 0 without one.
std::size_t behind_last_line(std::string_view text) {
  const auto last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

std::size_t behind_last_blank_line(std::string_view text) {
  for (std::size_t end = behind_last_line(text); end > 0;) {
    const std::size_t begin = behind_last_line(text.substr(0, end - 1));
    if (is_blank(text.substr(begin, end - begin))) return end;
    end = begin;
  }
  return 0;
}

// Occurrences do not overlap and are found from the left.
std::size_t behind_last_separator(std::string_view text, std::string_view separator) {
  std::size_t end = 0;
  for (auto at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, end)) {
    end = at + separator.size();
  }
  return end;
}

}  // namespace

void for_each_paragraph(std::string_view text, const DocumentVisitor& visit) {
  std::size_t begin = 0;  // of the paragraph
  for (std::size_t line = 0; line < text.size();) {
    const auto end = text.find('\n', line);
    const auto next = end == std::string_view::npos ? text.size() : end + 1;
    if (is_blank(text.substr(line, next - line))) {
      visit_piece(text.substr(begin, line - begin), visit);
      begin = next;
    }
    line = next;
  }
  visit_piece(text.substr(begin), visit);
}

void for_each_separated(std::string_view text, std::string_view separator,
                        const DocumentVisitor& visit) {
  PHALANX_CHECK(!separator.empty(), "an empty separator");
  while (true) {
    const auto end = text.find(separator);
    visit_piece(text.substr(0, end), visit);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + separator.size());
  }
}

void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::int64_t number)>& visit) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (!is_blank(line)) visit(line, number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void for_each_document(std::string_view text, const CorpusRules& rules,
                       const DocumentVisitor& visit) {
  if (rules.format == CorpusFormat::kJsonLines) {
    for_each_line(text, [&](std::string_view line, std::int64_t) { visit(line); });
  } else if (rules.split_on_blank_lines) {
    for_each_paragraph(text, visit);
  } else if (!rules.separator.empty()) {
    for_each_separated(text, rules.separator, visit);
  } else {
    visit(text);
  }
}

std::size_t settled_size(std::string_view text, const CorpusRules& rules) {
  if (rules.format == CorpusFormat::kJsonLines) return behind_last_line(text);
  if (rules.split_on_blank_lines) return behind_last_blank_line(text);
  return rules.separator.empty() ? 0 : behind_last_separator(text, rules.separator);
}

bool cuts_alike_everywhere(std::string_view separator) {
  for (std::size_t size = 1; size < separator.size(); ++size) {
    if (separator.starts_with(separator.substr(separator.size() - size))) return false;
  }
  return true;
}

void check_line_ends(const CorpusHead& head, const CorpusRules& rules, const std::string& name) {
  if (!head.ends_lines_by_return) return;
  if (rules.format != CorpusFormat::kJsonLines && !rules.split_on_blank_lines) return;
  throw DataError(
      "{}: its lines end with carriage returns alone (\\r), as on old Macintoshes: make line feeds "
      "of them, as with tr '\\r' '\\n'",
      name);
}

}  // namespace phalanx
