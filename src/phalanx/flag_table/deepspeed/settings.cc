#include "phalanx/flag_table/deepspeed/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/flag_table/deepspeed/json_text.h"

namespace phalanx::deepspeed {
namespace {

using Json = nlohmann::json;

std::string_view must_be(Kind kind) {
  switch (kind) {
    case Kind::kSwitch:
      return "must be true or false";
    case Kind::kInteger:
      return "must be a whole number";
    case Kind::kReal:
      return "must be a number";
    case Kind::kText:
      return "must be a text";
    case Kind::kPair:
      return "must be a list of two numbers";
    case Kind::kAny:
      return "";
  }
  return "";
}

std::optional<std::string> whole_number(const Json& value) {
  if (value.is_number_integer()) return value.dump();
  constexpr double kMostWhole = 9.2e18;
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > kMostWhole) return std::nullopt;
  return std::to_string(static_cast<std::int64_t>(number));
}

std::string real_number(const Json& value) { return fmt::format("{}", value.get<double>()); }

// The text as on a command line; nothing if the value is of another kind.
std::optional<std::vector<std::string>> words_of_value(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::kSwitch:
      if (value.is_boolean()) return {{value.get<bool>() ? "true" : "false"}};
      return std::nullopt;
    case Kind::kInteger:
      if (const auto number = whole_number(value)) return {{*number}};
      return std::nullopt;
    case Kind::kReal:
      if (value.is_number()) return {{real_number(value)}};
      return std::nullopt;
    case Kind::kText:
      if (value.is_string()) return {{value.get<std::string>()}};
      return std::nullopt;
    case Kind::kPair:
      if (value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number()) {
        return {{real_number(value[0]), real_number(value[1])}};
      }
      return std::nullopt;
    case Kind::kAny:
      return {{shown(value)}};
  }
  return std::nullopt;
}

bool is_among(std::string_view values, std::string_view word) {
  const auto all = words_of(values);
  return std::ranges::find(all, word) != all.end();
}

// "true or false"; text is quoted, as it stands in the file.
std::string either_of(const Key& key) {
  std::vector<std::string> values;
  for (const auto value : words_of(key.values)) {
    values.push_back(key.kind == Kind::kText ? fmt::format("\"{}\"", value) : std::string(value));
  }
  return fmt::format("{}", fmt::join(values, " or "));
}

}  // namespace

Settings::Settings(std::string file, const Json& json) : file_(std::move(file)) {
  read_object(json, "");
}

std::string Settings::text(std::string_view path) const {
  const auto found = waiting_.find(path);
  return found == waiting_.end() ? "" : found->second.front();
}

std::optional<double> Settings::number(std::string_view path) const {
  const std::string word = text(path);
  double number = 0.0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || fault != std::errc{}) return std::nullopt;
  return number;
}

std::string Settings::place(std::string_view path) const {
  return fmt::format("{}: {}", file_, shown_path(path));
}

void Settings::give(std::string_view path, std::string_view flag, const std::string& word) {
  flags_.flags.push_back({.name = std::string(flag), .words = {word}, .place = place(path)});
}

void Settings::give(std::string_view path, std::string_view flag) { give(path, flag, text(path)); }

void Settings::refuse(std::string_view path, std::string_view why) {
  flags_.faults.push_back(fmt::format("{} {}: {}", place(path), text(path), why));
}

void Settings::misuse(std::string_view path, const Json& value, std::string_view why) {
  flags_.misuses.push_back(fmt::format("{} {}: {}", place(path), shown(value), why));
}

void Settings::note(std::string_view path, std::string_view what) {
  auto known = std::ranges::find(notes_, what, [](const auto& note) { return note.first; });
  if (known == notes_.end()) known = notes_.insert(known, {std::string(what), {}});
  known->second.emplace_back(path);
}

FileFlags Settings::take() {
  for (const auto& [what, paths] : notes_) {
    flags_.notes.push_back(fmt::format("{}: {}: {}", file_, fmt::join(paths, ", "), what));
  }
  notes_.clear();
  return std::exchange(flags_, {});
}

void Settings::read_object(const Json& object, const std::string& section) {
  for (const auto& [name, value] : object.items()) {
    const std::string path = section + name;
    if (value.is_null()) continue;
    if (const Key* key = find_key(path)) {
      read_value(*key, value);
    } else if (!is_section(path)) {
      const auto meant = meant_by(path);
      flags_.misuses.push_back(fmt::format("{}: no key of DeepSpeed's that is known here{}",
                                           place(path),
                                           meant ? "; did you mean " + *meant + "?" : ""));
    } else if (!value.is_object()) {
      misuse(path, value, "must be an object, of keys between { and }");
    } else {
      read_object(value, path + ".");
    }
  }
}

void Settings::read_value(const Key& key, const Json& value) {
  if (key.fate == Fate::kOff) {
    read_switched_off(key, value);
    return;
  }
  if (key.fate == Fate::kRefused) {
    if (value.is_object() && value.empty()) return;
    flags_.faults.push_back(fmt::format("{}: {}", place(key.path), key.text));
    return;
  }
  if (value == "auto") {
    if (key.fate != Fate::kOnly) return;  // it is as the flag says, or always so
    misuse(key.path, value,
           fmt::format("no flag says what that is: give {}, or leave the key out", either_of(key)));
    return;
  }
  const auto words = words_of_value(value, key.kind);
  if (!words) {
    misuse(key.path, value, must_be(key.kind));
    return;
  }
  const std::string& word = words->front();
  if (key.fate == Fate::kOnly && !is_among(key.values, word)) {
    flags_.faults.push_back(fmt::format("{} {}: {}; give {}, or leave the key out", place(key.path),
                                        shown(value), key.text, either_of(key)));
  } else if (key.fate == Fate::kTaken && !is_among(key.values, word)) {
    note(key.path, key.text);
  } else if (key.fate == Fate::kFlag && key.when.empty()) {
    flags_.flags.push_back(
        {.name = std::string(key.flag), .words = *words, .place = place(key.path)});
  } else if (key.fate == Fate::kFlag || key.fate == Fate::kPart) {
    waiting_.emplace(key.path, *words);
  }
}

void Settings::read_switched_off(const Key& key, const Json& value) {
  if (!value.is_object()) {
    misuse(key.path, value, "must be an object, of keys between { and }");
    return;
  }
  const auto enabled = value.find("enabled");
  if (enabled == value.end() || enabled->is_null() || *enabled == false) return;
  const std::string path = fmt::format("{}.enabled", key.path);
  if (!enabled->is_boolean()) {
    misuse(path, *enabled, must_be(Kind::kSwitch));
    return;
  }
  flags_.faults.push_back(fmt::format("{} true: {}", place(path), key.text));
}

}  // namespace phalanx::deepspeed
