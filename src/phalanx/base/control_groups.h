#pragma once
// The control groups (cgroups, versions 1 and 2) that limit this process: its own and those that
// hold it, as far as they are mounted here. Linux; elsewhere, and where nothing is mounted, none.

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

  // The text of a file, without the final newline; empty where there is none.
  std::string read(std::string_view file) const;
  // The number that a file holds, or that follows `key` in it; none where it says something else
  // ("max").
  std::optional<std::int64_t> number(std::string_view file) const;
  std::optional<std::int64_t> number(std::string_view file, std::string_view key) const;
};

// The groups with `controller` ("cpu", "memory", "pids"), innermost first. The files
// proc/self/cgroup and proc/self/mountinfo, and mounts, are looked for below `root`: / except in
// tests.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace phalanx
