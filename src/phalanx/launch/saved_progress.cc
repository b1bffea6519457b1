#include "phalanx/launch/saved_progress.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx::launch {
namespace {

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

bool takes_snapshots(const std::vector<std::string>& command) {
  return std::ranges::any_of(command, [](const std::string& word) {
    return word.starts_with("--memory-snapshot-interval") ||
           word.starts_with("--memory_snapshot_interval") || word.starts_with("--yaml");
  });
}

std::optional<SavedProgress> newest_state(const std::filesystem::path& save,
                                          const MemoryFiles& memory) {
  const auto saved = newest_checkpoint(save);
  const std::vector<MemoryCheckpoint> snapshots = memory_checkpoints(memory);
  if (snapshots.empty()) return saved;
  const Manifest& newest = snapshots.front().manifest;
  const SavedProgress snapshot{.start = newest.start, .iteration = newest.iteration};
  const bool is_newer = !saved || std::pair(snapshot.start, snapshot.iteration) >
                                      std::pair(saved->start, saved->iteration);
  return is_newer ? snapshot : saved;
}

std::optional<SavedProgress> newest_checkpoint(const std::filesystem::path& save) {
  if (save.empty()) return std::nullopt;
  try {
    const std::vector<SavedCheckpoint> checkpoints = saved_checkpoints(save);
    if (checkpoints.empty()) return std::nullopt;
    return SavedProgress{.start = checkpoints.back().start,
                         .iteration = checkpoints.back().iteration};
  } catch (const Error& error) {
    log_warning("phalanx launch: {}", error.what());
    return std::nullopt;
  }
}

bool is_progress(const std::optional<SavedProgress>& before,
                 const std::optional<SavedProgress>& now) {
  if (!before || !now) return now.has_value();
  return now->iteration != before->iteration &&
         std::pair(now->start, now->iteration) > std::pair(before->start, before->iteration);
}

}  // namespace phalanx::launch
