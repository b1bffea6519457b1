#pragma once
// The control groups (cgroups, versions 1 and 2) that limit this process: its own and their
// parents, if mounted here. Empty on other systems than Linux and without a mount.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

struct ControlGroup {
  std::string name;                 // "/user.slice/job.scope"
  std::filesystem::path directory;  // of its files
  int version = 2;

  // The text of a file without the final newline; empty if there is no file.
  std::string read(std::string_view file) const;
  // The number in a file, or the number after `key` in it; empty for other values such as "max".
  std::optional<std::int64_t> number(std::string_view file) const;
  std::optional<std::int64_t> number(std::string_view file, std::string_view key) const;
};

// The groups with `controller` ("cpu", "memory", "pids"), innermost first. `root` is / except in
// tests; proc/self/cgroup, proc/self/mountinfo and mounts are read below it.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace phalanx
