// What is installed for model families from outside: the headers that they include, no others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// What a file includes: "phalanx/base/error.h", "fmt/core.h", "vector".
std::vector<std::string> includes_of(const fs::path& path) {
  static const std::regex include(R"(^\s*#\s*include\s*["<]([^">]+)[">].*)");
  std::vector<std::string> found;
  std::ifstream file(path);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, include)) found.push_back(match[1]);
  }
  return found;
}

TEST(InstalledHeaders, AreThoseThatAFamilyFromOutsideIncludes) {
  std::vector<fs::path> files;
  for (const char* folder : {"examples/own-model", "tests/own_family"}) {
    for (const auto& entry : fs::directory_iterator(source_path(folder))) {
      if (entry.path().extension() == ".h" || entry.path().extension() == ".cc") {
        files.push_back(entry.path());
      }
    }
  }
  std::set<std::string> wanted;
  while (!files.empty()) {
    const fs::path file = files.back();
    files.pop_back();
    for (const std::string& include : includes_of(file)) {
      if (include.starts_with("phalanx/")) {
        if (wanted.insert(include).second) files.push_back(source_path("src") / include);
      } else if (include.find('/') != include.npos) {
        // Of the libraries below only fmt is part of what programs of others are compiled with.
        EXPECT_TRUE(include.starts_with("fmt/")) << file << " includes " << include;
      }
    }
  }
  std::set<std::string> installed;
  std::ifstream list(source_path("cmake/installed_headers.txt"));
  for (std::string line; std::getline(list, line);) {
    if (!line.starts_with('#')) installed.insert(line);
  }
  EXPECT_EQ(installed, wanted);
}

}  // namespace
}  // namespace phalanx
