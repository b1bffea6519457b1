#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "phalanx/flags/row_text.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using Rows = std::vector<const FlagRow*>;

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
nevertheless (an epsilon, say). A flag that the checkpoint of an older program lacks had its
default there; of an imported model only what it names is compared.
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

std::string sentence(std::string_view text) { return cell(ended(text)); }

std::string joined(std::string_view list, std::string_view between) {
  return cell(fmt::format("{}", fmt::join(words_of(list), between)));
}

std::string meaning(const FlagSpec& spec) { return cell(full_meaning(spec)); }

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
  if (!remarks.empty()) text += cell(fmt::format(" ({})", fmt::join(remarks, "; ")));
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
