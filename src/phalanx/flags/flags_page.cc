#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using Rows = std::vector<const FlagRow*>;

constexpr std::string_view kFirstVersion = "0.1";

constexpr std::string_view kIntroduction =
    R"(The flags of `phalanx {}`, then those of the other commands. This page is made from the
program's own table: `phalanx help --markdown > docs/flags.md`.

Every flag of Megatron-LM's releases 2.5 to core 0.8, and most of later ones, has an answer:

* It *works*: the tables by section. Names may be spelt with underscores. Of a flag given twice the
  last one counts.
* It is *satisfied*: what it asks for is how Phalanx always does it. It may be given and changes
  nothing.
* It is *passed over*: no result depends on it. It may be given; one note at the start names all of
  these.
* It is *refused*: the error says why, and what to use instead. A plan takes some of these, where
  what is planned does not depend on them.

The last column says what a run that resumes from a checkpoint may do with a flag:

* free: it may have another value than in the checkpoint;
* warned: another value is reported;
* schedule: what the flags of the learning rate and the weight decay come to is compared;
* state: another value is refused, unless `--no-load-optim` begins the optimizer's state anew;
* fixed: another value is refused, unless `--finetune` begins a new run from the weights;
* shape: another value is refused even then, for the weights depend on it.

`--allow-changed FLAG` permits a change of a fixed flag, and of a shape that the weights fit
nevertheless (an epsilon, say).
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

// Capitalises a text that begins with a word.
std::string capitalized(std::string text) {
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_inside = [&](char c) { return is_small(c) || c == '-'; };
  const auto word = std::string_view(text).substr(0, text.find_first_of(" ,:;"));
  if (word.empty() || !is_small(word[0]) || !std::ranges::all_of(word, is_inside)) return text;
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
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

// The flag's other names, and the version since which it has its state.
std::vector<std::string> remarks_on(const FlagSpec& spec) {
  std::vector<std::string> remarks;
  if (!spec.aliases.empty()) remarks.push_back("also " + joined(spec.aliases, ", "));
  if (!spec.old_names.empty()) remarks.push_back("formerly " + joined(spec.old_names, ", "));
  std::vector<std::string> keys;
  for (const std::string_view key : words_of(spec.yaml_keys)) {
    const bool is_negation = key.starts_with('!');
    keys.push_back(is_negation ? cell(key.substr(1)) + ": false" : cell(key));
  }
  if (!keys.empty()) remarks.push_back(fmt::format("in YAML also {}", fmt::join(keys, ", ")));
  if (spec.since != kFirstVersion) remarks.push_back(fmt::format("since version {}", spec.since));
  return remarks;
}

std::string meaning(const FlagSpec& spec) {
  std::string text = sentence(spec.help);
  if (spec.required) text += " Required.";
  if (spec.required_to_train || !spec.required_unless.empty()) {
    text += spec.required_to_train ? " Required to train" : " Required";
    if (!spec.required_unless.empty()) text += ", or " + joined(spec.required_unless, " or ");
    text += ".";
  }
  text += range_sentence(spec.range);
  if (!spec.needs.empty()) text += fmt::format(" Needs {}.", joined(spec.needs, " or "));
  if (!spec.excludes.empty()) text += fmt::format(" Not with {}.", joined(spec.excludes, ", "));
  if (!spec.stands_for.empty()) text += fmt::format(" Stands for {}.", cell(spec.stands_for));
  if (!spec.same_values.empty()) text += fmt::format(" Also {}.", joined(spec.same_values, ", "));
  if (spec.accumulates) text += " Given twice, both count.";
  for (const auto& remark : remarks_on(spec)) text += fmt::format(" {}.", capitalized(remark));
  return text;
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
    case ResumeClass::kState:
      return "state";
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

// `resumes`: with a column for what a resumed run may do.
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

// "--optimizer adam (also --optim)".
std::string flag_with_remarks(const FlagRow& row) {
  std::string text = cell(row.spec.name);
  const auto values = allowed_values(row.spec);
  if (!values.empty()) text += ' ' + cell(either_of(values));
  const auto remarks = remarks_on(row.spec);
  if (!remarks.empty()) text += fmt::format(" ({})", fmt::join(remarks, "; "));
  return text;
}

// One line for all flags with the same text.
std::string shared_lines(const Rows& rows, std::vector<std::string> (*cells_of)(const FlagSpec&)) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;  // flags, cells
  for (const FlagRow* row : rows) {
    auto cells = cells_of(row->spec);
    const auto line =
        std::ranges::find_if(lines, [&](const auto& known) { return known.second == cells; });
    if (line == lines.end()) {
      lines.emplace_back(flag_with_remarks(*row), std::move(cells));
    } else {
      line->first += ", " + flag_with_remarks(*row);
    }
  }
  std::string text;
  for (auto& [flags, cells] : lines) {
    cells.insert(cells.begin(), std::move(flags));
    text += line_of(cells);
  }
  return text;
}

std::string satisfied_table(const Rows& rows) {
  return heading_of({"flags", "why they need nothing"}) +
         shared_lines(rows, [](const FlagSpec& spec) {
           std::string why = capitalized(sentence(spec.reason));
           if (!spec.otherwise.empty()) {
             why += " Other values are refused: " + sentence(spec.otherwise);
           }
           return std::vector{why};
         });
}

std::string passed_over_table(const Rows& rows) {
  return heading_of({"flags", "why no result depends on them"}) +
         shared_lines(rows, [](const FlagSpec& spec) {
           std::string why = capitalized(sentence(spec.reason));
           if (!spec.instead.empty()) why += ' ' + capitalized(sentence(spec.instead));
           return std::vector{why};
         });
}

std::string refused_table(const Rows& rows) {
  return heading_of({"flags", "why, and what to use instead", "a plan"}) +
         shared_lines(rows, [](const FlagSpec& spec) {
           return std::vector{capitalized(sentence(spec.reason)),
                              spec.planned.empty() ? "refuses it too" : cell(spec.planned)};
         });
}

// `rows_in`: the rows to list of a state.
std::string other_states(const std::function<Rows(FlagState)>& rows_in, std::string_view level) {
  std::string text;
  const Rows satisfied = rows_in(FlagState::kSatisfied);
  const Rows passed_over = rows_in(FlagState::kPassedOver);
  const Rows refused = rows_in(FlagState::kRefused);
  if (!satisfied.empty()) {
    text += fmt::format("\n{} Satisfied flags\n\n{}", level, satisfied_table(satisfied));
  }
  if (!passed_over.empty()) {
    text +=
        fmt::format("\n{} Flags that are passed over\n\n{}", level, passed_over_table(passed_over));
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
  return text +
         other_states([&](FlagState state) { return rows_in_state(command.rows, state); }, "##");
}

// A command has a row of the first if it has it under the same name and with the same meaning.
bool has(const std::vector<FlagRow>& rows, const FlagRow& row) {
  return std::ranges::any_of(rows, [&](const FlagRow& other) {
    // Under another name, as --nproc of plan, it is a flag of its own that is listed.
    const bool is_renamed =
        other.spec.name != row.spec.name && answers_to(other.spec, row.spec.name);
    return is_renamed || (other.spec.name == row.spec.name && other.spec.help == row.spec.help &&
                          other.spec.state == row.spec.state);
  });
}

std::string names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const FlagRow* row : rows) names.push_back(cell(row->spec.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The flags that a command shares with the first one.
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
  return text + other_states(own, "###");
}

}  // namespace

std::string flags_page(const std::vector<CommandFlags>& commands) {
  std::string text = "# Flags\n";
  const CommandFlags* first = nullptr;
  for (const CommandFlags& command : commands) {
    if (command.rows.empty()) continue;
    if (first == nullptr) {
      text += "\n" + fmt::format(kIntroduction, command.words) + first_command(command);
      first = &command;
    } else {
      text += other_command(command, *first);
    }
  }
  return text;
}

}  // namespace phalanx
