#include "walls.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

namespace phalanx::walls {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTableName = "walls.txt";
constexpr std::string_view kOwnPrefix = "phalanx/";

struct Folder {
  int line = 0;
  std::vector<std::string> uses;
  std::vector<std::string> tests_use;  // in addition
};

struct Vendor {
  std::string prefix;
  std::vector<std::string> rooms;  // folders with their subfolders: "ops/cpu"
};

struct Table {
  std::map<std::string, Folder> folders;
  std::vector<Vendor> vendors;
};

struct Include {
  std::string name;
  bool quoted = false;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

// The first folder of a path: "ops" of "ops/cpu/matmul.cc"; empty for a file that is in no folder.
std::string first_folder(std::string_view path) {
  const auto slash = path.find('/');
  return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash));
}

Table read_table(const fs::path& root, std::vector<Violation>& violations) {
  Table table;
  std::ifstream file(root / kTableName);
  if (!file) violations.push_back({kTableName, 0, "cannot be read"});
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string text = line.substr(0, line.find('#'));
    if (words(text).empty()) continue;
    const auto colon = text.find(':');
    const auto head = words(text.substr(0, colon));
    if (colon == std::string::npos || head.empty() || head.size() > 2 ||
        (head.size() == 2 && head[0] != "vendor" && head[0] != "tests")) {
      violations.push_back(
          {kTableName, number, "no line of a folder, of a folder's tests or of a vendor"});
      continue;
    }
    auto rest = words(text.substr(colon + 1));
    if (head[0] == "tests") {
      const auto folder = table.folders.find(head[1]);
      if (folder == table.folders.end()) {
        violations.push_back({kTableName, number, fmt::format("no line for {} before", head[1])});
      } else {
        folder->second.tests_use = std::move(rest);
      }
    } else if (head.size() == 2) {
      table.vendors.push_back({head[1], std::move(rest)});
    } else if (!table.folders.try_emplace(head[0], Folder{number, std::move(rest), {}}).second) {
      violations.push_back({kTableName, number, fmt::format("a second line for {}", head[0])});
    }
  }
  for (const auto& [name, folder] : table.folders) {
    for (const auto* uses : {&folder.uses, &folder.tests_use}) {
      for (const auto& use : *uses) {
        if (table.folders.contains(use)) continue;
        violations.push_back(
            {kTableName, folder.line, fmt::format("{} names the unknown folder {}", name, use)});
      }
    }
  }
  return table;
}

// All folders that `name` reaches over one or more uses; it reaches itself only in a circle.
std::set<std::string> reachable(const Table& table, const std::string& name) {
  std::set<std::string> seen;
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const auto found = table.folders.find(open.back());
    open.pop_back();
    if (found == table.folders.end()) continue;
    for (const auto& use : found->second.uses) {
      if (seen.insert(use).second) open.push_back(use);
    }
  }
  return seen;
}

std::optional<Include> parse_include(std::string_view line) {
  const auto skip_blanks = [&line] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  skip_blanks();
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  skip_blanks();
  constexpr std::string_view kInclude = "include";
  if (!line.starts_with(kInclude)) return std::nullopt;
  line.remove_prefix(kInclude.size());
  skip_blanks();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const bool quoted = line[0] == '"';
  line.remove_prefix(1);
  return Include{std::string(line.substr(0, line.find(quoted ? '"' : '>'))), quoted};
}

bool is_inside(std::string_view directory, std::string_view room) {
  return directory == room ||
         (directory.starts_with(room) && directory.substr(room.size()).starts_with('/'));
}

// "x_test.cc", and what tests share: "test_support.h".
bool is_test(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.ends_with("_test") || stem.ends_with("test_support");
}

class Checker {
 public:
  explicit Checker(const fs::path& root) : root_(root), table_(read_table(root, violations_)) {
    for (const auto& [name, folder] : table_.folders) {
      allowed_[name] = reachable(table_, name);
      if (allowed_[name].contains(name)) {
        violations_.push_back(
            {kTableName, folder.line, fmt::format("{} uses itself in a circle", name)});
      }
      allowed_[name].insert(name);
      std::set<std::string>& to_tests = allowed_to_tests_[name] = allowed_[name];
      for (const auto& use : folder.tests_use) {
        to_tests.insert(use);
        to_tests.merge(reachable(table_, use));
      }
    }
  }

  void check_file(const fs::path& file) {
    const std::string folder = first_folder(file.generic_string());
    if (!table_.folders.contains(folder)) {
      violations_.push_back({file, 1, "is in no folder that walls.txt knows"});
      return;
    }
    std::ifstream stream(root_ / file);
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      const auto include = parse_include(line);
      if (!include) continue;
      if (auto fault = fault_of(*include, file, folder)) {
        violations_.push_back({file, number, std::move(*fault)});
      }
    }
  }

  std::vector<Violation> take() { return std::move(violations_); }

 private:
  std::optional<std::string> fault_of(const Include& include, const fs::path& file,
                                      const std::string& folder) const {
    const std::string& name = include.name;
    if (name.starts_with(kOwnPrefix)) {
      const auto target = first_folder(std::string_view(name).substr(kOwnPrefix.size()));
      const auto& allowed = is_test(file) ? allowed_to_tests_ : allowed_;
      if (allowed.at(folder).contains(target)) return std::nullopt;
      return fmt::format("{} may not include {}", folder, name);
    }
    if (include.quoted && fs::exists(root_ / file.parent_path() / name)) {
      return fmt::format("include {} by its full name, phalanx/...", name);
    }
    const std::string directory = file.parent_path().generic_string();
    for (const auto& vendor : table_.vendors) {
      if (!name.starts_with(vendor.prefix)) continue;
      const bool at_home = std::ranges::any_of(
          vendor.rooms, [&](const auto& room) { return is_inside(directory, room); });
      if (!at_home) return fmt::format("vendor header {} outside its room", name);
    }
    return std::nullopt;
  }

  fs::path root_;
  std::vector<Violation> violations_;
  Table table_;
  std::map<std::string, std::set<std::string>> allowed_, allowed_to_tests_;
};

}  // namespace

std::string Violation::to_string() const {
  return fmt::format("{}:{}: {}", file.generic_string(), line, message);
}

std::vector<Violation> check(const std::filesystem::path& root) {
  Checker checker(root);
  const std::set<std::string> sources = {".h", ".cc", ".cu", ".cuh"};
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && sources.contains(entry.path().extension().string())) {
      checker.check_file(entry.path().lexically_relative(root));
    }
  }
  auto violations = checker.take();
  std::ranges::sort(violations, {}, [](const Violation& violation) {
    return std::tie(violation.file, violation.line, violation.message);
  });
  return violations;
}

}  // namespace phalanx::walls
