#include "phalanx/launch/saved_progress.h"

#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx::launch {
namespace {

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";

// The last value of a flag on a command line; empty where it is not given.
std::string value_of(const std::vector<std::string>& command, std::string_view flag) {
  std::string value;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == flag && i + 1 < command.size()) value = command[i + 1];
    if (word.starts_with(flag) && word.size() > flag.size() && word[flag.size()] == '=') {
      value = word.substr(flag.size() + 1);
    }
  }
  return value;
}

bool has(const std::vector<std::string>& command, std::string_view flag) {
  for (const std::string& word : command) {
    if (word == flag) return true;
  }
  return false;
}

std::string saved_by_yaml(const std::vector<std::string>& command, const std::string& file) {
  const bool with_environment = has(command, "--yaml-env") || has(command, "--yaml_env");
  try {
    for (const YamlEntry& entry :
         read_yaml(file, with_environment ? process_environment : nullptr).entries) {
      if (entry.key == "save" && !entry.words.empty()) return entry.words[0];
    }
  } catch (const Error&) {
    return "";
  }
  return "";
}

}  // namespace

std::filesystem::path save_directory_of(const std::vector<std::string>& command) {
  std::string save = value_of(command, "--save");
  std::string file = value_of(command, "--yaml-cfg");
  if (file.empty()) file = value_of(command, "--yaml_cfg");
  if (save.empty() && !file.empty()) save = saved_by_yaml(command, file);
  return save;
}

std::optional<double> silence_timeout_of(const std::vector<std::string>& command) {
  const std::string text = value_of(command, "--silence-timeout-s");
  double seconds = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (fault != std::errc{} || end != text.data() + text.size() || !(seconds > 0)) {
    return std::nullopt;
  }
  return seconds;
}

std::optional<std::int64_t> newest_iteration(const std::filesystem::path& save) {
  if (save.empty()) return std::nullopt;
  std::array<char, 32> text{};
  std::ifstream file(save / kTracker, std::ios::binary);
  file.read(text.data(), text.size());
  const std::string_view digits(text.data(), static_cast<std::size_t>(file.gcount()));
  std::int64_t iteration = 0;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), iteration);
  const bool ends_there = end == digits.data() + digits.size() || *end == '\n';
  if (fault != std::errc{} || !ends_there || iteration < 0) return std::nullopt;
  return iteration;
}

}  // namespace phalanx::launch
