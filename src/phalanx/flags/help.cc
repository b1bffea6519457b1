#include <fmt/format.h>

#include <algorithm>

#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

constexpr std::size_t kLineWidth = 100;
// The last column in which meanings may begin.
constexpr std::size_t kMeaningColumn = 36;
constexpr std::size_t kLongestChoices = 26;

// Breaks text into lines of kLineWidth, indented by `indent` blanks. Text in brackets is not
// broken.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string result, line;
  int open = 0;
  std::string piece;
  for (const std::string_view word : words_of(text)) {
    piece += (piece.empty() ? "" : " ") + std::string(word);
    open += static_cast<int>(std::ranges::count(word, '['));
    open -= static_cast<int>(std::ranges::count(word, ']'));
    if (open > 0) continue;
    if (!line.empty() && indent + line.size() + 1 + piece.size() > kLineWidth) {
      result += std::string(indent, ' ') + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + piece;
    piece.clear();
  }
  line += (line.empty() || piece.empty() ? "" : " ") + piece;
  return result + std::string(indent, ' ') + line + '\n';
}

bool shows_choices_as_value(const FlagRow& row) {
  return !row.spec.choices.empty() && row.spec.choices.size() <= kLongestChoices;
}

// "--clip-grad X".
std::string head_of(const FlagRow& row) {
  if (row.type == FlagType::kSwitch) return std::string(row.spec.name);
  const std::string value = shows_choices_as_value(row)
                                ? fmt::format("{}", fmt::join(words_of(row.spec.choices), "|"))
                                : std::string(value_name(row.spec, row.type));
  return fmt::format("{} {}{}", row.spec.name, value, row.type == FlagType::kList ? "..." : "");
}

std::string meaning_of(const FlagSet& flags, const FlagRow& row) {
  std::string text(row.spec.help);
  if (!row.spec.choices.empty() && !shows_choices_as_value(row)) {
    text += fmt::format(" ({})", either_of(words_of(row.spec.choices)));
  }
  if (!row.spec.required_unless.empty()) {
    text += fmt::format(" (required, or {})", either_of(words_of(row.spec.required_unless)));
  } else if (flags.is_required(row)) {
    text += " (required)";
  } else if (const std::string value = telling_default(row); !value.empty()) {
    text += fmt::format(" [default: {}]", value);
  }
  return text;
}

// A head that is too long for the column of meanings has a line of its own.
std::string entry(const std::string& head, const std::string& meaning, std::size_t column) {
  const std::string line = "  " + head;
  if (meaning.empty()) return line + '\n';
  const std::string lines = wrapped(meaning, column);
  return line.size() + 2 > column ? line + '\n' + lines : line + lines.substr(line.size());
}

std::string flag_entry(const FlagSet& flags, const FlagRow& row, std::size_t column) {
  const std::string meaning = meaning_of(flags, row);
  std::string aliases;
  for (const std::string_view alias : words_of(row.spec.aliases)) {
    aliases += fmt::format(" [also {}]", alias);
  }
  const bool aliases_fit = column + meaning.size() + aliases.size() <= kLineWidth;
  return entry(head_of(row), aliases_fit ? meaning + aliases : meaning, column);
}

// The column where meanings begin: after the longest head that is within the limit.
std::size_t column_behind(const std::vector<std::string>& heads) {
  std::size_t column = 0;
  for (const auto& head : heads) {
    if (head.size() + 4 <= kMeaningColumn) column = std::max(column, head.size() + 4);
  }
  return column == 0 ? kMeaningColumn : column;
}

std::string usage_line(const FlagSet& flags, bool has_flags) {
  std::string text = "usage: " + flags.command();
  bool requires_flags = false;
  for (const FlagRow& row : flags.rows()) requires_flags |= flags.is_required(row);
  for (const Positional& word : flags.positionals()) {
    for (int i = 0; i < word.least; ++i) text += " " + word.name;
    if (word.most == word.least + 1) {
      text += fmt::format(" [{}]", word.name);
    } else if (word.most > word.least) {
      text += word.least > 0 ? "..." : fmt::format(" [{}...]", word.name);
    }
  }
  if (has_flags) text += requires_flags ? " FLAGS" : " [FLAGS]";
  return text + '\n';
}

// A call that is too long is broken by a backslash, before a flag.
std::string call_text(std::string_view call) {
  std::string text, line = "   ";
  for (std::size_t at = 0; at < call.size();) {
    const std::size_t end = std::min(call.find(" --", at), call.size());
    const std::string_view piece = call.substr(at, end - at);
    at = std::min(end + 1, call.size());
    if (line.size() + 1 + piece.size() + 2 > kLineWidth) {
      text += line + " \\\n";
      line = "       ";
    }
    line += ' ';
    line += piece;
  }
  return text + line + '\n';
}

std::string examples_text(const FlagSet& flags) {
  std::string text;
  for (const auto& [call, meaning] : flags.examples()) {
    text += text.empty() ? "\nExamples:\n" : "";
    text += wrapped(meaning + ":", 2) + call_text(call);
  }
  return text;
}

}  // namespace

std::string help_text(const FlagSet& flags) {
  const auto shown = rows_in_state(flags.rows(), FlagState::kWorks);
  std::vector<std::string> heads;
  for (const FlagRow* row : shown) heads.push_back(head_of(*row));
  for (const Positional& word : flags.positionals()) heads.push_back(word.name);
  const std::size_t column = column_behind(heads);

  std::string text = usage_line(flags, !shown.empty()) + '\n';
  text += wrapped(flags.description(), 0);
  if (!flags.positionals().empty()) text += '\n';
  for (const Positional& word : flags.positionals()) text += entry(word.name, word.help, column);
  for (const FlagSection& section : sections_of(shown)) {
    text += fmt::format("\n{}:\n", section.title);
    for (const FlagRow* row : section.rows) text += flag_entry(flags, *row, column);
  }
  if (const std::size_t others = flags.rows().size() - shown.size(); others > 0) {
    text += fmt::format(
        "\n{} more flag{} of {}'s need{} nothing here or {} refused: docs/flags.md says why.\n",
        others, others == 1 ? "" : "s", flags.program(), others == 1 ? "s" : "",
        others == 1 ? "is" : "are");
  }
  return text + examples_text(flags);
}

}  // namespace phalanx
