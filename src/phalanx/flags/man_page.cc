#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

// Text that roff prints as it is: blanks alone part words, and no mark is a request or a glyph that
// shells do not know.
std::string literal(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '"':
        result += "\\(dq";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      case '\n':
        result += ' ';
        break;
      default:
        result += c;
    }
  }
  return result;
}

// A line of text. A mark that would make it a request stands behind a character without width.
std::string line_of(std::string_view text) {
  std::string line = literal(text);
  if (line.starts_with('.') || line.starts_with("\\(aq")) line.insert(0, "\\&");
  return line + '\n';
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", literal(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", literal(text)); }

// Words in capitals are places for words of the user: N, [PREFIX], DIR....
bool is_place(std::string_view word) {
  return std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; }) &&
         std::ranges::none_of(word, [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string call_line(std::string_view call) {
  std::vector<std::string> parts;
  for (const std::string_view word : words_of(call)) {
    parts.push_back(is_place(word) ? italic(word) : bold(word));
  }
  return fmt::format("{}\n", fmt::join(parts, " "));
}

std::string head_of(const FlagRow& row) {
  std::string text = bold(row.spec.name);
  if (row.type == FlagType::kSwitch) return text;
  const auto choices = words_of(row.spec.choices);
  if (choices.empty()) {
    text += ' ' + italic(value_name(row.spec, row.type));
  } else {
    std::vector<std::string> values;
    for (const std::string_view choice : choices) values.push_back(bold(choice));
    text += fmt::format(" {}", fmt::join(values, "|\\:"));  // where lines may break
  }
  return text + (row.type == FlagType::kList ? "..." : "");
}

std::string entry(std::string_view head, std::string_view meaning) {
  return fmt::format(".TP\n{}\n{}", head, line_of(meaning));
}

std::string heading(std::string_view request, std::string_view title) {
  return fmt::format(".{} \"{}\"\n", request, literal(title));
}

// A sentence as the line of an index: "the first tokens".
std::string index_line(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  const auto is_between = [&](std::size_t at, char low, char high) {
    return at < text.size() && text[at] >= low && text[at] <= high;
  };
  if (is_between(0, 'A', 'Z') && (is_between(1, 'a', 'z') || text.starts_with("A "))) {
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  return text;
}

std::string capitals(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

std::string flags_text(const std::vector<FlagRow>& rows) {
  const auto works = rows_in_state(rows, FlagState::kWorks);
  if (rows.empty()) return "";
  std::string text = heading("SH", "FLAGS");
  for (const FlagSection& section : sections_of(works)) {
    if (section.title != "Flags") text += heading("SS", section.title);
    for (const FlagRow* row : section.rows) {
      std::string meaning = full_meaning(row->spec);
      if (const std::string value = telling_default(*row); !value.empty()) {
        meaning += fmt::format(" The default is {}.", value);
      }
      text += entry(head_of(*row), meaning);
    }
  }
  if (const std::size_t others = rows.size() - works.size(); others > 0) {
    text += ".PP\n" + line_of(fmt::format(
                          "{} more of Megatron's flags need nothing here or are refused: phalanx "
                          "help --markdown says why.",
                          others));
  }
  return text;
}

}  // namespace

std::string man_page_name(std::string_view command) {
  return fmt::format("{}", fmt::join(words_of(command), "-"));
}

std::string man_page(const ManPage& page) {
  const std::string name = man_page_name(page.command);
  std::string text = fmt::format(".TH \"{}\" 1 \"\" \"Phalanx {}\" \"Phalanx\"\n",
                                 literal(capitals(name)), literal(page.version));
  // Lines with calls and names of flags are not hyphenated, nor are they stretched.
  text += ".nh\n.ad l\n";
  text += heading("SH", "NAME") +
          fmt::format("{} \\- {}\n", literal(name), literal(index_line(page.meaning)));
  text += heading("SH", "SYNOPSIS") + call_line(page.usage);
  if (!page.description.empty()) {
    text += heading("SH", "DESCRIPTION") + line_of(ended(page.description));
  }
  for (const auto& [word, meaning] : page.words) text += entry(italic(word), ended(meaning));
  if (!page.commands.empty()) text += heading("SH", "COMMANDS");
  for (const auto& [command, meaning] : page.commands) {
    text += entry(fmt::format("{}(1)", bold(man_page_name(command))), ended(capitalized(meaning)));
  }
  text += flags_text(page.rows);
  if (!page.statuses.empty()) text += heading("SH", "EXIT STATUS");
  for (const auto& [status, meaning] : page.statuses) text += entry(bold(status), meaning);
  if (!page.examples.empty()) text += heading("SH", "EXAMPLES");
  for (const auto& [call, meaning] : page.examples) {
    text += ".PP\n" + line_of(capitalized(meaning) + ":") + ".PP\n.RS 4\n.nf\n" + line_of(call) +
            ".fi\n.RE\n";
  }
  if (page.see.empty()) return text;
  std::vector<std::string> names;
  for (const std::string& command : page.see) {
    names.push_back(fmt::format("{}(1)", bold(man_page_name(command))));
  }
  return text + heading("SH", "SEE ALSO") + fmt::format("{}\n", fmt::join(names, ", "));
}

}  // namespace phalanx
