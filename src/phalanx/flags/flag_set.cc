#include "phalanx/flags/flag_set.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/flags/encoding.h"
#include "phalanx/flags/reading.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {
namespace {

bool is_old_name(const FlagSpec& spec, std::string_view typed) {
  const std::string canonical = canonical_name(typed);
  return std::ranges::any_of(words_of(spec.old_names),
                             [&](auto name) { return canonical_name(name) == canonical; });
}

// "--split 969,30,1", as it was typed.
std::string call_of(const FlagRow& row) {
  if (row.type == FlagType::kSwitch) return row.source;
  return fmt::format("{} {}", row.source, shown(row.words));
}

// The flags that a given one stands for, with its value.
std::string meant_by(const FlagRow& row) {
  std::string flags(row.spec.stands_for);
  const std::size_t place = flags.find('@');
  if (place != std::string::npos) flags.replace(place, 1, row.words[0]);
  return flags;
}

// Whether the flag was given its default. Such a flag contradicts no other.
bool asks_for_nothing(const FlagRow& row) {
  return !row.spec.needs_always && !std::holds_alternative<std::monostate>(row.target) &&
         text_of(row.target) == row.default_text;
}

std::string heading_of(std::string_view section) {
  std::string heading;
  const std::size_t genitive = section.find("'s");  // "Phalanx's own" is phalanx_own
  if (genitive != std::string_view::npos) {
    return heading_of(section.substr(0, genitive)) + heading_of(section.substr(genitive + 2));
  }
  for (const char c : section) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      heading += static_cast<char>(std::tolower(letter));
    } else if (!heading.ends_with('_')) {
      heading += '_';
    }
  }
  return heading;
}

// The value that a word stands for: "auto=fused" makes fused of auto.
std::string meant_by(const FlagSpec& spec, const std::string& word) {
  for (const auto pair : words_of(spec.same_values)) {
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == word) return std::string(pair.substr(equals + 1));
  }
  return word;
}

std::vector<std::string> words_between_commas(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const auto& word : words) {
    std::size_t begin = 0;
    while (begin <= word.size()) {
      const std::size_t end = std::min(word.find(',', begin), word.size());
      const std::size_t first = word.find_first_not_of(" \t", begin);
      if (first < end) {
        const std::size_t last = word.find_last_not_of(" \t", end - 1);
        result.push_back(word.substr(first, last - first + 1));
      }
      begin = end + 1;
    }
  }
  return result;
}

}  // namespace

FlagSet::FlagSet(std::string command, std::string description)
    : command_(std::move(command)), description_(std::move(description)) {}

void FlagSet::add(const FlagSpec& spec, FlagTarget target) {
  for (const auto list : {spec.name, spec.aliases, spec.old_names}) {
    for (const auto name : words_of(list)) {
      const bool is_new = places_.emplace(canonical_name(name), rows_.size()).second;
      PHALANX_CHECK(is_new, "{} is there already", name);
    }
  }
  rows_.push_back({.spec = spec,
                   .type = type_of(target, spec.type),
                   .target = target,
                   .section = section_,
                   .default_text = text_of(target),
                   .source = {},
                   .spelling = {},
                   .words = {}});
}

void FlagSet::add_example(std::string call, std::string meaning) {
  examples_.emplace_back(std::move(call), std::move(meaning));
}

void FlagSet::add_yaml() {
  section(std::string(kFilesSection));
  add({.name = kYamlFile,
       .help = "Flags from a YAML file, under their names with underscores",
       .value_name = "FILE"},
      &yaml_file_);
  add({.name = "--yaml-env",
       .help = "${NAME} in the file is the environment's",
       .needs = kYamlFile},
      &yaml_env_);
  add({.name = "--print-yaml", .help = "Print the call as a YAML file and do nothing else"},
      &print_yaml_);
}

void FlagSet::add_settings(const FlagSpec& spec, std::shared_ptr<SettingsFile> file) {
  PHALANX_CHECK(settings_ == nullptr, "{}: {} has a file of settings already", spec.name, command_);
  section(std::string(kFilesSection));
  add(spec, &settings_file_);
  settings_ = std::move(file);
}

const FlagRow* FlagSet::find(std::string_view name) const {
  const auto place = places_.find(canonical_name(name));
  return place == places_.end() ? nullptr : &rows_[place->second];
}

FlagRow* FlagSet::find(std::string_view name) {
  return const_cast<FlagRow*>(std::as_const(*this).find(name));
}

bool FlagSet::given(std::string_view name) const { return !source(name).empty(); }

const std::string& FlagSet::source(std::string_view name) const {
  const FlagRow* row = find(name);
  PHALANX_CHECK(row != nullptr, "{} has no flag {}", command_, name);
  return row->source;
}

bool FlagSet::is_required(const FlagRow& row) const {
  const FlagSpec& spec = row.spec;
  if (spec.required_to_train) return !plans_;
  return spec.required || !spec.required_unless.empty();
}

// Whether a switch is on, or another flag is given or has another value than its default.
bool FlagSet::is_on(std::string_view name) const {
  const FlagRow* row = find(name);
  if (row == nullptr) return false;
  if (row->type == FlagType::kSwitch && !std::holds_alternative<std::monostate>(row->target)) {
    return text_of(row->target) == "true";
  }
  if (row->is_given()) return row->type != FlagType::kSwitch || row->words[0] == "true";
  const bool has_default = row->type == FlagType::kText || row->type == FlagType::kInteger;
  return has_default && text_of(row->target) != row->default_text;
}

void FlagSet::apply(const FlagOccurrence& found, FlagReading& reading) {
  FlagRow& row = *found.row;
  // In free text a comma is part of the text.
  const bool cuts = row.spec.accumulates && !row.spec.may_be_empty;
  std::vector<std::string> words = cuts ? words_between_commas(found.words) : found.words;
  if (words.empty() && row.type == FlagType::kList) {
    reading.misuse("{}: a value must follow, {}", found.source, value_name(row.spec, row.type));
    return;
  }
  for (std::string& word : words) {
    word = meant_by(row.spec, word);
    const auto fault = fault_of(row.spec, row.type, word);
    if (!fault) continue;
    reading.fault("{} {}: {}", found.source, shown(word), *fault);
    reading.is_misused = reading.is_misused || word.empty() || type_fault(row.type, word);
    reading.unreadable.push_back(&row);
    return;
  }
  if (row.spec.accumulates) words.insert(words.begin(), row.words.begin(), row.words.end());
  if (row.type == FlagType::kSwitch) words[0] = canonical_value(row.type, words[0]);
  if (const auto fault = assign(row.target, row.type, words)) {
    reading.misuse("{}: {}", found.source, *fault);
    return;
  }
  row.source = found.source;
  row.spelling = found.spelling;
  row.words = std::move(words);
  row.is_implied = found.is_implied;
}

// Sets the flags that a given one stands for.
void FlagSet::replace(const FlagRow& row, FlagReading& reading) {
  const auto parts = words_of(row.spec.stands_for);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    FlagRow* meant = find(parts[i]);
    PHALANX_CHECK(meant != nullptr, "{} stands for {}, which is no flag", row.spec.name, parts[i]);
    std::string value = "true";
    if (meant->type != FlagType::kSwitch) value = parts.at(++i);
    if (value == "@") value = row.words[0];
    if (meant->is_given()) {
      if (canonical_value(meant->type, meant->words[0]) == canonical_value(meant->type, value)) {
        continue;
      }
      reading.fault("{} means {} {} and contradicts {}: give one", call_of(row), meant->spec.name,
                    value, call_of(*meant));
      continue;
    }
    apply({.row = meant,
           .source = row.source + ": " + std::string(meant->spec.name),
           .spelling = std::string(meant->spec.name),
           .words = {value},
           .is_implied = true},
          reading);
  }
}

// Handles a flag that does not simply work.
void FlagSet::answer(const FlagRow& row, FlagReading& reading) {
  const FlagSpec& spec = row.spec;
  if (row.type == FlagType::kSwitch && row.words[0] == "false") return;
  if (is_old_name(spec, row.spelling)) {
    notes_.push_back(fmt::format("{} is now called {}", row.source, spec.name));
  }
  if (spec.is_old) notes_.push_back(fmt::format("{} is now {}", call_of(row), meant_by(row)));
  if (spec.state == FlagState::kWorks || spec.state == FlagState::kPassedOver) return;
  const auto values = words_of(spec.satisfied_by);
  const bool is_satisfied =
      spec.state == FlagState::kSatisfied &&
      (values.empty() || std::ranges::all_of(row.words, [&](const std::string& word) {
         return std::ranges::find(values, canonical_value(row.type, word)) != values.end();
       }));
  if (is_satisfied) {
    notes_.push_back(fmt::format("{}: {}", call_of(row), spec.reason));
  } else if (plans_ && !spec.planned.empty()) {
    notes_.push_back(fmt::format("{}: {}", call_of(row), spec.planned));
  } else {
    reading.fault("{}: {}", call_of(row), spec.otherwise.empty() ? spec.reason : spec.otherwise);
  }
}

// One note: a script of another program may have many of them.
void FlagSet::tell_passed_over() {
  std::vector<std::string> calls;
  std::vector<std::string_view> found_elsewhere;
  for (const FlagRow& row : rows_) {
    if (row.spec.state != FlagState::kPassedOver || !row.is_given()) continue;
    if (row.type == FlagType::kSwitch && row.words[0] == "false") continue;
    calls.push_back(call_of(row));
    const std::string_view instead = row.spec.instead;
    if (instead.empty() || std::ranges::find(found_elsewhere, instead) != found_elsewhere.end()) {
      continue;
    }
    found_elsewhere.push_back(instead);
  }
  if (calls.empty()) return;
  notes_.push_back(fmt::format("passed over, for no result depends on {}: {}{}{}",
                               calls.size() == 1 ? "it" : "them", fmt::join(calls, ", "),
                               found_elsewhere.empty() ? "" : "; ",
                               fmt::join(found_elsewhere, "; ")));
}

void FlagSet::check_together(FlagReading& reading) const {
  std::vector<std::string_view> missing;
  for (const FlagRow& row : rows_) {
    const bool is_missing = !row.is_given() && text_of(row.target) == row.default_text;
    const bool is_excused = std::ranges::any_of(words_of(row.spec.required_unless),
                                                [&](std::string_view name) { return is_on(name); });
    if (is_required(row) && is_missing && !is_excused && !reading.is_unreadable(row)) {
      missing.push_back(row.spec.name);
    }
    if (!row.is_given() || !is_on(row.spec.name) || asks_for_nothing(row)) continue;
    const auto needs = words_of(row.spec.needs);
    const auto is_there = [&](std::string_view name) {
      return is_on(name) || reading.is_unreadable(*find(name));
    };
    if (!needs.empty() && std::ranges::none_of(needs, is_there)) {
      reading.fault("{} needs {}", call_of(row), fmt::join(needs, " or "));
    }
    for (const auto name : words_of(row.spec.excludes)) {
      const FlagRow* other = find(name);
      if (!is_on(name) || !other->is_given() || reading.exclude_each_other(row, *other)) continue;
      reading.exclusions.emplace_back(&row, other);
      reading.fault("{} and {} exclude each other: give one", call_of(row), call_of(*other));
    }
  }
  if (!missing.empty()) reading.misuse("{} must be given", fmt::join(missing, ", "));
}

void FlagSet::parse(const std::vector<std::string>& arguments,
                    const std::function<void()>& complete, const std::function<void()>& judge) {
  expect_utf8(arguments);
  FlagReading reading;
  scan(arguments, reading);
  for (const FlagOccurrence& found : reading.found) reading.typed.push_back(found.row);
  read_yaml_file(reading);
  read_settings_file(reading);
  for (const FlagOccurrence& found : reading.found) apply(found, reading);
  for (const FlagRow& row : rows_) {
    if (!row.is_given()) continue;
    answer(row, reading);
    if (!row.spec.stands_for.empty() && row.words[0] != "false") replace(row, reading);
  }
  tell_passed_over();
  std::size_t taken = 0;
  for (const Positional& positional : positionals_) {
    const auto most = static_cast<std::size_t>(positional.most);
    while (taken < reading.positionals.size() && positional.values->size() < most) {
      positional.values->push_back(reading.positionals[taken++]);
    }
    if (positional.values->size() < static_cast<std::size_t>(positional.least)) {
      reading.misuse("{} must be given{}", positional.name,
                     positional.least > 1 ? fmt::format(" {} times", positional.least) : "");
    }
  }
  for (; taken < reading.positionals.size(); ++taken) {
    reading.misuse("{} belongs to no flag", shown(reading.positionals[taken]));
  }
  try {
    if (complete) complete();
    settle_settings_file(reading);
  } catch (const Error& error) {
    if (reading.faults.empty()) throw;
    reading.fault("{}", error.what());
  }
  check_together(reading);
  try {
    if (judge && !reading.is_misused && reading.unreadable.empty()) judge();
  } catch (const ConfigError& error) {
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) {
      if (!reading.has_told(line)) reading.fault("{}", line);
    }
  }
  if (reading.faults.empty()) return;
  std::string message = fmt::format("{}", fmt::join(reading.faults, "\n"));
  if (reading.count > reading.faults.size()) {
    message += fmt::format("\nand {} more", reading.count - reading.faults.size());
  }
  if (!reading.is_misused) throw ConfigError("{}", message);
  throw UsageError("{} ({} --help lists the flags)", message, command_);
}

std::string FlagSet::to_yaml() const {
  std::vector<YamlSection> sections;
  for (const FlagRow& row : rows_) {
    // A value set by another flag is set again by that flag.
    if (!row.is_given() || row.is_implied || row.section == kFilesSection) continue;
    const std::string heading = heading_of(row.section);
    auto section = std::ranges::find(sections, heading, &YamlSection::heading);
    if (section == sections.end()) {
      section = sections.insert(section, {.heading = heading, .values = {}});
    }
    section->values.push_back(
        {.key = key_of(row.spec.name),
         .words = row.words,
         .is_list = row.type == FlagType::kList,
         .is_text = row.type == FlagType::kText || row.type == FlagType::kList});
  }
  return yaml_text(sections);
}

std::vector<std::pair<std::string, std::string>> FlagSet::values() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const FlagRow& row : rows_) {
    if (std::holds_alternative<std::monostate>(row.target)) continue;
    result.emplace_back(row.spec.name, text_of(row.target));
  }
  return result;
}

void FlagSet::set_default(std::string_view name, const std::string& text) {
  const FlagRow* row = find(name);
  if (row == nullptr || row->is_given() || text.empty()) return;
  if (const auto fault = assign(row->target, row->type, words_of_text(row->type, text))) {
    throw UsageError("{} {}: {}", name, text, *fault);
  }
}

}  // namespace phalanx
