#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using Rows = std::vector<const FlagRow*>;

constexpr std::string_view kFirstVersion = "0.1";

constexpr std::string_view kIntroduction =
    R"(The flags of `phalanx {}`, then those of the other commands. This page is made from the
program's own table: `phalanx help --markdown > docs/flags.md`.

Every flag of Megatron-LM's has an answer:

* It *works*: the tables by section. Names may be spelt with underscores. Of a flag given twice the
  last one counts.
* It is *satisfied*: what it asks for is how Phalanx always does it. It may be given and changes
  nothing.
* It is *refused*: the error says why, and what to use instead. A plan takes some of these, where
  what is planned does not depend on them.

The last column says what a run that resumes from a checkpoint may do with a flag:

* free: it may have another value than in the checkpoint;
* warned: another value is reported;
* schedule: what the flags of the learning rate and the weight decay come to is compared;
* fixed: another value is refused, unless `--finetune` begins a new run from the weights;
* shape: another value is refused even then, for the weights depend on it.

`--allow-changed FLAG` permits a change that would be refused.
)";

// Text in a cell of a table: on one line, and nothing in it is markup.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '<' || c == '*' || c == '`') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string sentence(std::string_view text) {
  std::string result = cell(text);
  if (!result.empty() && std::string_view(".!?").find(result.back()) == std::string_view::npos) {
    result += '.';
  }
  return result;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

std::string joined(std::string_view list, std::string_view between) {
  return cell(fmt::format("{}", fmt::join(words_of(list), between)));
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

std::string yaml_sentence(std::string_view keys) {
  std::string text;
  for (const std::string_view key : words_of(keys)) {
    if (key.starts_with('!')) {
      text += fmt::format(" In YAML also {}, reversed.", cell(key.substr(1)));
    } else {
      text += fmt::format(" In YAML also {}.", cell(key));
    }
  }
  return text;
}

// Names, and since when it is so.
std::string names_and_version(const FlagSpec& spec) {
  std::string text;
  if (!spec.aliases.empty()) text += fmt::format(" Also {}.", joined(spec.aliases, ", "));
  if (!spec.old_names.empty()) text += fmt::format(" Formerly {}.", joined(spec.old_names, ", "));
  text += yaml_sentence(spec.yaml_keys);
  if (spec.since != kFirstVersion) text += fmt::format(" Since version {}.", spec.since);
  return text;
}

std::string meaning(const FlagSpec& spec) {
  std::string text = sentence(spec.help);
  if (spec.required) text += " Required.";
  if (spec.required_to_train) text += " Required to train.";
  if (!spec.required_unless.empty()) {
    text += fmt::format(" Required, or {}.", cell(spec.required_unless));
  }
  text += range_sentence(spec.range);
  if (!spec.needs.empty()) text += fmt::format(" Needs {}.", joined(spec.needs, " or "));
  if (!spec.excludes.empty()) text += fmt::format(" Not with {}.", joined(spec.excludes, ", "));
  if (!spec.stands_for.empty()) text += fmt::format(" Stands for {}.", cell(spec.stands_for));
  if (spec.accumulates) text += " Given twice, both count.";
  return text + names_and_version(spec);
}

std::string value_of(const FlagRow& row) {
  if (row.type == FlagType::kSwitch) return "";
  if (!row.spec.choices.empty()) return joined(row.spec.choices, ", ");
  return cell(value_name(row.spec, row.type)) + (row.type == FlagType::kList ? "..." : "");
}

std::string_view name_of(ResumeClass resume) {
  switch (resume) {
    case ResumeClass::kFree:
      return "free";
    case ResumeClass::kWarned:
      return "warned";
    case ResumeClass::kSchedule:
      return "schedule";
    case ResumeClass::kFixed:
      return "fixed";
    case ResumeClass::kShape:
      return "shape";
  }
  return "";
}

std::string line_of(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const auto& text : cells) line += text.empty() ? " |" : fmt::format(" {} |", text);
  return line + "\n";
}

std::string heading_of(const std::vector<std::string>& cells) {
  std::string text = line_of(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
  return text + "\n";
}

// `resumes`: with what a resumed run may do.
std::string working_table(const Rows& rows, bool resumes) {
  std::vector<std::string> titles = {"flag", "value", "default", "what it does"};
  if (resumes) titles.emplace_back("on resume");
  std::string text = heading_of(titles);
  for (const FlagRow* row : rows) {
    std::vector<std::string> cells = {cell(row->spec.name), value_of(*row),
                                      cell(telling_default(*row)), meaning(row->spec)};
    if (resumes) cells.emplace_back(name_of(row->spec.resume));
    text += line_of(cells);
  }
  return text;
}

std::string satisfied_table(const Rows& rows) {
  std::string text = heading_of({"flag", "value", "why it needs nothing"});
  for (const FlagRow* row : rows) {
    const FlagSpec& spec = row->spec;
    std::string why = sentence(spec.reason);
    if (!spec.otherwise.empty()) {
      why += fmt::format(" Other values are refused: {}", sentence(spec.otherwise));
    }
    const std::string value =
        spec.satisfied_by.empty() ? value_of(*row) : joined(spec.satisfied_by, ", ");
    text += line_of({cell(spec.name), value, why + names_and_version(spec)});
  }
  return text;
}

std::string refused_table(const Rows& rows) {
  std::string text = heading_of({"flag", "why, and what to use instead", "a plan"});
  for (const FlagRow* row : rows) {
    const FlagSpec& spec = row->spec;
    text += line_of({cell(spec.name), sentence(spec.reason) + names_and_version(spec),
                     spec.planned.empty() ? "refuses it too" : cell(spec.planned)});
  }
  return text;
}

std::string other_states(const Rows& satisfied, const Rows& refused, std::string_view level) {
  std::string text;
  if (!satisfied.empty()) {
    text += fmt::format("\n{} Satisfied flags\n\n{}", level, satisfied_table(satisfied));
  }
  if (!refused.empty()) {
    text += fmt::format("\n{} Refused flags\n\n{}", level, refused_table(refused));
  }
  return text;
}

std::string first_command(const CommandFlags& command) {
  std::string text = fmt::format("\n## Flags of {} that work\n", command.words);
  for (const auto& section : sections_of(rows_in_state(command.rows, FlagState::kWorks))) {
    text += fmt::format("\n### {}\n\n{}", section.title, working_table(section.rows, true));
  }
  return text + other_states(rows_in_state(command.rows, FlagState::kSatisfied),
                             rows_in_state(command.rows, FlagState::kRefused), "##");
}

// A command has a row of the first if it has it under the same name and with the same meaning.
bool has(const std::vector<FlagRow>& rows, const FlagRow& row) {
  return std::ranges::any_of(rows, [&](const FlagRow& other) {
    return other.spec.name == row.spec.name && other.spec.help == row.spec.help &&
           other.spec.state == row.spec.state;
  });
}

std::string names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const FlagRow* row : rows) names.push_back(cell(row->spec.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

// What a command has of the first one's flags.
std::string shared_flags(const CommandFlags& command, const CommandFlags& first) {
  Rows shared, missing;
  for (const FlagRow* row : rows_in_state(first.rows, FlagState::kWorks)) {
    (has(command.rows, *row) ? shared : missing).push_back(row);
  }
  if (shared.empty()) return "";
  if (shared.size() < missing.size()) {
    return fmt::format("\nAs {}: {}.\n", first.words, names_of(shared));
  }
  const std::string but = missing.empty() ? "" : fmt::format(", but not {}", names_of(missing));
  return fmt::format("\nTakes the flags of {}{}.\n", first.words, but);
}

std::string other_command(const CommandFlags& command, const CommandFlags& first) {
  std::string text =
      fmt::format("\n## {}\n\n{}\n", command.words, capitalized(sentence(command.help)));
  text += shared_flags(command, first);
  const auto own = [&](FlagState state) {
    Rows rows = rows_in_state(command.rows, state);
    std::erase_if(rows, [&](const FlagRow* row) { return has(first.rows, *row); });
    return rows;
  };
  if (const Rows rows = own(FlagState::kWorks); !rows.empty()) {
    text += "\n" + working_table(rows, false);
  }
  return text + other_states(own(FlagState::kSatisfied), own(FlagState::kRefused), "###");
}

}  // namespace

std::string flags_page(const std::vector<CommandFlags>& commands) {
  PHALANX_CHECK(!commands.empty(), "a page of no command");
  std::string text = "# Flags\n\n" + fmt::format(kIntroduction, commands[0].words);
  text += first_command(commands[0]);
  for (std::size_t i = 1; i < commands.size(); ++i) {
    if (!commands[i].rows.empty()) text += other_command(commands[i], commands[0]);
  }
  return text;
}

}  // namespace phalanx
