#include "phalanx/flags/reading.h"

#include <fmt/ranges.h>

#include <cctype>
#include <cstddef>

#include "phalanx/base/error.h"
#include "phalanx/flags/views.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {
namespace {

// A text with a blank is a value even if it begins like a flag: no name has a blank.
bool begins_flag(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return name.size() > 2 && name.starts_with("--") && name[2] != '-' &&
         name.find_first_of(" \t\n") == std::string_view::npos;
}

// Whether a word can be a value of the type: -5 can, --seed cannot.
bool is_value(FlagType type, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return true;
  if (type == FlagType::kText) return !begins_flag(word);
  const bool is_word = word == "-inf" || word == "-nan";  // reported later as impossible
  return is_word || word[1] == '.' || std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

// Whether a text has the name of a flag as a word: --lr is not in "--lr-decay-style cosine".
bool mentions(std::string_view text, std::string_view name) {
  const auto is_part = [](char c) {
    return c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_part(text[at - 1]);
    if (begins && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

// The negation of a switch's word. Another word is returned as it is and reported later.
std::string negation_of(const std::string& word) {
  if (word == "true") return "false";
  return word == "false" ? "true" : word;
}

}  // namespace

bool FlagReading::has_told(std::string_view fault) const {
  return std::ranges::any_of(exclusions, [&](const auto& pair) {
    return mentions(fault, pair.first->spec.name) && mentions(fault, pair.second->spec.name);
  });
}

std::string shown(std::string_view word) {
  constexpr std::size_t kMost = 120;
  std::string text;
  bool needs_quotes = word.empty();
  for (const char c : word.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    needs_quotes = needs_quotes || byte <= ' ';
    text += byte < ' ' || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  if (word.size() > kMost) text += "...";
  return needs_quotes ? "'" + text + "'" : text;
}

std::string shown(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shown(word);
  return text;
}

std::string key_of(std::string_view name) {
  std::string key(name.substr(2));
  std::ranges::replace(key, '-', '_');
  return key;
}

std::optional<std::string> FlagSet::nearest_flag(std::string_view name) const {
  std::vector<std::string> names;
  for (const FlagRow& known : rows_) {
    if (known.spec.state != FlagState::kRefused) names.emplace_back(known.spec.name);
  }
  return nearest(canonical_name(name), names);
}

// Splits the command line as argparse does; the words of unknown flags are left out with them.
void FlagSet::scan(const std::vector<std::string>& arguments, FlagReading& reading) {
  std::size_t at = 0;
  const auto next_is_value = [&](FlagType type) {
    return at < arguments.size() && is_value(type, arguments[at]);
  };
  while (at < arguments.size()) {
    const std::string& word = arguments[at++];
    if (word == "--help" || word == "-h") {
      HelpRequested help{.text = help_text(*this),
                         .command = command_,
                         .description = description_,
                         .rows = rows_,
                         .takes_words = !positionals_.empty(),
                         .examples = examples_};
      for (const Positional& one : positionals_) help.words.emplace_back(one.name, one.help);
      throw help;
    }
    if (word == "--") {  // no flags follow
      reading.positionals.insert(reading.positionals.end(),
                                 arguments.begin() + static_cast<std::ptrdiff_t>(at),
                                 arguments.end());
      return;
    }
    if (is_value(FlagType::kList, word)) {
      reading.positionals.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    FlagRow* row = begins_flag(name) ? find(name) : nullptr;
    if (row == nullptr) {
      const auto meant = reading.is_long() ? std::nullopt : nearest_flag(name);
      reading.misuse("{}: unknown flag{}", shown(name),
                     meant ? "; did you mean " + *meant + "?" : "");
      // Values of the flag, or words of the command.
      while (positionals_.empty() && next_is_value(FlagType::kList)) ++at;
      continue;
    }
    FlagOccurrence found{.row = row, .source = name, .spelling = name, .words = {}};
    if (equals != std::string::npos) {
      found.words.push_back(word.substr(equals + 1));
    } else if (row->type == FlagType::kSwitch) {
      found.words.emplace_back("true");
    } else if (row->type == FlagType::kList) {
      while (next_is_value(row->type)) found.words.push_back(arguments[at++]);
    } else if (next_is_value(row->type)) {
      found.words.push_back(arguments[at++]);
    }
    if (found.words.empty()) {
      reading.misuse("{}: a value must follow, {}", name, value_name(row->spec, row->type));
      reading.unreadable.push_back(row);
      continue;
    }
    reading.found.push_back(std::move(found));
  }
}

// The row that a key of a file means, and whether the key is its negation; null where there is
// none.
std::pair<FlagRow*, bool> FlagSet::row_of_key(const std::string& key) {
  for (FlagRow& known : rows_) {
    for (const auto alias : words_of(known.spec.yaml_keys)) {
      const bool negates = alias.starts_with('!');
      if (canonical_name(alias.substr(negates ? 1 : 0)) == canonical_name(key)) {
        return {&known, negates};
      }
    }
  }
  return {find(key), false};
}

void FlagSet::read_yaml_file(FlagReading& reading) {
  std::string file;
  bool with_environment = false;
  for (const FlagOccurrence& found : reading.found) {
    if (found.row->spec.name == kYamlFile) file = found.words[0];
    if (found.row->spec.name == "--yaml-env") with_environment = found.words[0] == "true";
  }
  if (file.empty()) return;
  std::vector<FlagOccurrence> in_file;
  std::vector<std::string> keys;
  for (const FlagRow& row : rows_) keys.push_back(key_of(row.spec.name));
  YamlContents contents = read_yaml(file, with_environment ? process_environment : nullptr);
  for (const YamlEntry& heading : contents.headings) {
    if (find(heading.key) == nullptr) continue;
    reading.misuse("{}: {} is a flag: give it a value, or call the heading otherwise",
                   heading.place, heading.key);
  }
  for (YamlEntry& entry : contents.entries) {
    const auto meant_row = row_of_key(entry.key);
    FlagRow* const row = meant_row.first;
    const bool is_negated = meant_row.second;
    if (row == nullptr || row->section == kFilesSection) {
      const auto meant = nearest(entry.key, keys);
      reading.misuse("{}: {}: {}{}", entry.place, entry.key,
                     row == nullptr ? "no flag has this name" : "does not belong in a file",
                     meant && row == nullptr ? "; did you mean " + *meant + "?" : "");
      continue;
    }
    const auto before = std::ranges::find(in_file, row, &FlagOccurrence::row);
    if (before != in_file.end() && !row->spec.accumulates) {
      reading.misuse("{}: {} means {}, which {} says already: keep one of them", entry.place,
                     entry.key, row->spec.name, before->source);
      continue;
    }
    // The command line wins. For flags that set nothing, an empty text asks for nothing.
    const bool is_overruled = !row->spec.accumulates && reading.is_typed(*row);
    const bool is_empty = entry.words == std::vector<std::string>{""} &&
                          std::holds_alternative<std::monostate>(row->target);
    if (is_overruled || is_empty) continue;
    if (entry.is_list && row->type == FlagType::kNumbers) {
      entry.words = {fmt::format("{}", fmt::join(entry.words, ","))};
    } else if (entry.is_list && row->type != FlagType::kList) {
      reading.misuse("{}: {} takes one value, not a list", entry.place, entry.key);
      continue;
    }
    if (row->type == FlagType::kSwitch) {
      entry.words[0] = canonical_value(row->type, entry.words[0]);
      if (is_negated) entry.words[0] = negation_of(entry.words[0]);
    }
    in_file.push_back({.row = row,
                       .source = fmt::format("{}: {}", entry.place, entry.key),
                       .spelling = entry.key,
                       .words = std::move(entry.words)});
  }
  reading.found.insert(reading.found.begin(), in_file.begin(), in_file.end());
}

// The flags of a file of settings, without those that the command line gives.
std::vector<FlagOccurrence> FlagSet::occurrences_of(const FileFlags& file, FlagReading& reading) {
  for (const std::string& misuse : file.misuses) reading.misuse("{}", misuse);
  for (const std::string& fault : file.faults) reading.fault("{}", fault);
  notes_.insert(notes_.end(), file.notes.begin(), file.notes.end());
  std::vector<FlagOccurrence> result;
  for (const FileFlags::Given& given : file.flags) {
    FlagRow* row = find(given.name);
    PHALANX_CHECK(row != nullptr, "{}: {} has no flag {}", given.place, command_, given.name);
    if (reading.is_typed(*row)) continue;
    const FlagOccurrence* before = nullptr;
    for (const auto* others : {&reading.found, &result}) {
      const auto other = std::ranges::find(*others, row, &FlagOccurrence::row);
      if (other != others->end()) before = &*other;
    }
    if (before != nullptr) {
      reading.misuse("{} means {}, which {} says already: keep one of them", given.place,
                     row->spec.name, before->source);
      continue;
    }
    result.push_back({.row = row,
                      .source = given.place,
                      .spelling = std::string(row->spec.name),
                      .words = given.words});
  }
  return result;
}

void FlagSet::read_settings_file(FlagReading& reading) {
  if (settings_ == nullptr) return;
  std::string path;
  for (const FlagOccurrence& found : reading.found) {
    if (found.row->target == FlagTarget{&settings_file_}) path = found.words[0];
  }
  if (path.empty()) {
    settings_ = nullptr;
    return;
  }
  const auto in_file = occurrences_of(settings_->read(path), reading);
  reading.found.insert(reading.found.begin(), in_file.begin(), in_file.end());
}

void FlagSet::settle_settings_file(FlagReading& reading) {
  if (settings_ == nullptr) return;
  for (const FlagOccurrence& found : occurrences_of(settings_->settle(*this), reading)) {
    apply(found, reading);
  }
}

}  // namespace phalanx
