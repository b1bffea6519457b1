#pragma once
// A call while it is read: shared by reading.cc, which reads it, and flag_set.cc, which judges it.

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

// A flag as it was found on the command line or in a file.
struct FlagOccurrence {
  FlagRow* row = nullptr;
  std::string source;
  std::string spelling;
  std::vector<std::string> words;
  bool is_implied = false;
};

// What has been read of a call so far.
struct FlagReading {
  std::vector<FlagOccurrence> found;  // files first, then the command line
  std::vector<const FlagRow*> typed;  // rows given on the command line
  std::vector<std::string> positionals;
  std::vector<std::string> faults;
  std::size_t count = 0;    // number of faults
  bool is_misused = false;  // whether some words cannot be read, as opposed to impossible values
  std::vector<const FlagRow*> unreadable;  // rows whose given value cannot be read
  // Pairs of flags that exclude each other and were reported.
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
  // Whether a fault concerns two flags that were already reported to exclude each other: leaving
  // one of them out mends this fault, too.
  bool has_told(std::string_view fault) const;

  // Adds a fault: words that cannot be read.
  template <typename... Args>
  void misuse(fmt::format_string<Args...> format, Args&&... args) {
    fault(format, std::forward<Args>(args)...);
    is_misused = true;
  }
  // Adds a fault: values that are impossible or contradict each other.
  template <typename... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    if (!is_long()) faults.push_back(fmt::format(format, std::forward<Args>(args)...));
    ++count;
  }
  // The most faults that are printed; of the others only the number is.
  bool is_long() const { return faults.size() >= 20; }
};

// A word for messages: on one line, not too long, and in quotes if it begins or ends with a blank
// or is empty.
std::string shown(std::string_view word);
std::string shown(const std::vector<std::string>& words);

// The key of a flag in YAML files: num_layers for --num-layers.
std::string key_of(std::string_view name);

}  // namespace phalanx
