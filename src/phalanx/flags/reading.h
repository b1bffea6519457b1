#pragma once
// A call while it is read: what flag_set.cc, which judges it, and reading.cc, which reads it, have
// in common.

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/flags/flag_set.h"

namespace phalanx {

inline constexpr std::string_view kYamlFile = "--yaml-cfg";
inline constexpr std::string_view kFilesSection = "Files of flags";

// A flag as it was found, on the command line or in a file.
struct FlagOccurrence {
  FlagRow* row = nullptr;
  std::string source;
  std::string spelling;
  std::vector<std::string> words;
  bool is_implied = false;
};

// What is known of a call while it is read.
struct FlagReading {
  std::vector<FlagOccurrence> found;  // files first, then the command line
  std::vector<const FlagRow*> typed;  // on the command line
  std::vector<std::string> positionals;
  std::vector<std::string> faults;
  std::size_t count = 0;    // of faults
  bool is_misused = false;  // a fault is of the words themselves, not of what the values say
  std::vector<const FlagRow*> unreadable;  // rows that were given, in vain
  // That were told to exclude each other.
  std::vector<std::pair<const FlagRow*, const FlagRow*>> exclusions;

  bool is_typed(const FlagRow& row) const { return std::ranges::find(typed, &row) != typed.end(); }
  bool is_unreadable(const FlagRow& row) const {
    return std::ranges::find(unreadable, &row) != unreadable.end();
  }
  bool exclude_each_other(const FlagRow& one, const FlagRow& other) const {
    return std::ranges::any_of(exclusions, [&](const auto& pair) {
      return pair == std::pair(&one, &other) || pair == std::pair(&other, &one);
    });
  }
  // Whether a fault is of two flags together that were told to exclude each other: who gives one of
  // them is rid of it, too.
  bool has_told(std::string_view fault) const;

  // Words that cannot be read.
  template <typename... Args>
  void misuse(fmt::format_string<Args...> format, Args&&... args) {
    fault(format, std::forward<Args>(args)...);
    is_misused = true;
  }
  // Values that are not possible or contradict each other.
  template <typename... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    if (!is_long()) faults.push_back(fmt::format(format, std::forward<Args>(args)...));
    ++count;
  }
  // More faults than anybody reads: of the others the number is told.
  bool is_long() const { return faults.size() >= 20; }
};

// A word as messages show it: on one line, of a readable length, in quotes where its ends cannot be
// seen.
std::string shown(std::string_view word);
std::string shown(const std::vector<std::string>& words);

// The key of a flag in YAML files: num_layers of --num-layers.
std::string key_of(std::string_view name);

}  // namespace phalanx
