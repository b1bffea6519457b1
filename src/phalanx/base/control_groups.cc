#include "phalanx/base/control_groups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace phalanx {
namespace {

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::optional<std::int64_t> parse(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

bool lists(const std::string& names, std::string_view name) {
  const auto words = split(names, ',');
  return std::ranges::find(words, name) != words.end();
}

struct Mount {
  std::string root;  // the mounted part of the hierarchy
  std::filesystem::path at;
};

// "36 35 98:0 /root /at rw shared:1 - cgroup cgroup rw,memory"
std::optional<Mount> find_mount(const std::filesystem::path& root, int version,
                                std::string_view controller) {
  for (const std::string& line : split(text_in(root / "proc/self/mountinfo"), '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool fits =
        version == 2 ? right[0] == "cgroup2" : right[0] == "cgroup" && lists(right[2], controller);
    if (fits) return Mount{left[3], root / std::filesystem::path(left[4]).relative_path()};
  }
  return std::nullopt;
}

// The group of this process in a controller's hierarchy, named in its own namespace.
struct GroupMembership {
  std::string name;
  int version;
};
std::optional<GroupMembership> find_group_membership(const std::filesystem::path& root,
                                                     std::string_view controller) {
  std::optional<GroupMembership> unified;
  for (const std::string& line : split(text_in(root / "proc/self/cgroup"), '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string name = line.substr(second + 1);
    // A controller belongs to one hierarchy. Version 2 may have those that version 1 does not list.
    if (lists(controllers, controller)) return GroupMembership{name, 1};
    if (controllers.empty()) unified = GroupMembership{name, 2};
  }
  return unified;
}

// The group's path below the mount. A container may see its own group as the root.
std::filesystem::path inside(const std::string& name, const std::string& mounted) {
  std::filesystem::path relative =
      std::filesystem::path(name).lexically_relative(mounted).lexically_normal();
  if (relative.empty() || *relative.begin() == ".." || *relative.begin() == ".") return {};
  return relative;
}

}  // namespace

std::string ControlGroup::read(std::string_view file) const {
  std::string text = text_in(directory / file);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<std::int64_t> ControlGroup::number(std::string_view file) const {
  return parse(read(file));
}

std::optional<std::int64_t> ControlGroup::number(std::string_view file,
                                                 std::string_view key) const {
  for (const std::string& line : split(read(file), '\n')) {
    const auto words = split(line, ' ');
    if (words.size() == 2 && words[0] == key) return parse(words[1]);
  }
  return std::nullopt;
}

std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root) {
  const auto membership = find_group_membership(root, controller);
  if (!membership) return {};
  const auto mount = find_mount(root, membership->version, controller);
  if (!mount) return {};
  std::filesystem::path below = inside(membership->name, mount->root);
  std::vector<ControlGroup> groups;
  for (;; below = below.parent_path()) {
    groups.push_back({"/" + below.string(), mount->at / below, membership->version});
    if (below.empty()) return groups;
  }
}

}  // namespace phalanx
