// What stands beside the code: comments, scripts and build files, as those who have nothing but the
// repository meet them. Scripts run on a copy, with programs that only say that they were called.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::filesystem::path kSource = source_path(".");

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "design 2.9" and the like.
bool cites_a_section(const std::string& line) {
  for (const std::string_view page : {"design ", "section ", "spec "}) {
    for (auto at = line.find(page); at != std::string::npos; at = line.find(page, at + 1)) {
      const char next = (line + "\n")[at + page.size()];
      if (next >= '0' && next <= '9') return true;
    }
  }
  return false;
}

TEST(Repository, CommentsCiteNoPageThatAReaderDoesNotHave) {
  EXPECT_TRUE(cites_a_section("by design, see design 2.9"));
  EXPECT_FALSE(cites_a_section("the design"));
  for (const char* folder : {"src", "bench", "cmake", "tools", "docs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / folder)) {
      const bool is_picture =
          entry.path().extension() == ".svg" || entry.path().extension() == ".png";
      if (!entry.is_regular_file() || is_picture) continue;
      for (const std::string& line : lines_of(text_of(entry.path()))) {
        EXPECT_FALSE(cites_a_section(line)) << entry.path() << ": " << line;
      }
    }
  }
}

struct PagePaths {
  std::set<std::string> found;  // as they lie in the repository
  std::set<std::string> missing;
};

// The files and folders that a page names between backquotes, by paths from the root of the
// repository, from src/phalanx, from the page's own folder, or as they are included. Of a pattern
// the folder counts.
PagePaths paths_in(const std::string& text, const std::filesystem::path& folder = {}) {
  static const std::regex path(R"(`([a-z_]+/[\w.*/-]*)`)");
  static const std::regex ours(R"(.*\.(h|cc|sh)|(src|tests|docs|tools|bench|examples|cmake)/.*)");
  PagePaths paths;
  for (std::sregex_iterator match(text.begin(), text.end(), path), end; match != end; ++match) {
    std::string name = (*match)[1];
    if (name.find('*') != std::string::npos) name.erase(name.rfind('/', name.find('*')));
    const std::filesystem::path bases[] = {"", "src/phalanx", folder, "src"};
    const auto* const base = std::ranges::find_if(
        bases, [&](const auto& one) { return std::filesystem::exists(kSource / one / name); });
    if (base != std::end(bases)) {
      paths.found.insert((*base / name).string());
    } else if (std::regex_match(std::string((*match)[1]), ours)) {
      paths.missing.insert(name);
    }
  }
  return paths;
}

TEST(Pages, NameFilesThatAreThere) {
  std::vector<std::filesystem::path> pages = {"README.md", "CONTRIBUTING.md", "SECURITY.md"};
  for (const char* folder : {"docs", "src/phalanx"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / folder)) {
      if (entry.path().extension() == ".md") {
        pages.push_back(entry.path().lexically_relative(kSource));
      }
    }
  }
  for (const std::filesystem::path& page : pages) {
    EXPECT_THAT(paths_in(text_of(kSource / page), page.parent_path()).missing, testing::IsEmpty())
        << page;
  }
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_of_word = [](char c) { return c == '_' || (std::isalnum(c) != 0); };
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t behind = at + word.size();
    const bool begins = at == 0 || !is_of_word(text[at - 1]);
    if (begins && (behind == text.size() || !is_of_word(text[behind]))) return true;
  }
  return false;
}

// The files whose text has one of these words; not this one.
std::set<std::string> files_that_name(const std::vector<std::string>& words) {
  std::set<std::string> files;
  for (const char* folder : {"src", "tests", "docs", "bench", "examples"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / folder)) {
      if (!entry.is_regular_file() || entry.path().filename() == "repository_test.cc") continue;
      const std::string text = text_of(entry.path());
      if (std::ranges::any_of(words,
                              [&](const std::string& word) { return has_word(text, word); })) {
        files.insert(entry.path().lexically_relative(kSource).string());
      }
    }
  }
  return files;
}

TEST(Contributing, ListsTheFilesThatNameItsExamples) {
  const std::string page = text_of(kSource / "CONTRIBUTING.md");
  const std::vector<std::pair<std::string, std::vector<std::string>>> sections = {
      {"### Add an op: `Rotate`", {"Rotate"}},
      {"### Add a flag: `--no-data-sharding`", {"--no-data-sharding", "no_data_sharding"}},
      {"### Add a schedule: `looped-bfs`", {"looped-bfs", "looped_bfs_passes"}}};
  for (const auto& [heading, words] : sections) {
    const auto begin = page.find(heading);
    ASSERT_NE(begin, std::string::npos) << heading;
    auto told = paths_in(page.substr(begin, page.find("\n#", begin) - begin)).found;
    std::erase_if(told, [](const std::string& path) {  // what helps with the change
      return std::filesystem::path(path).extension().empty();
    });
    EXPECT_EQ(told, files_that_name(words)) << heading;
  }
}

class Scripts : public testing::Test {
 protected:
  Scripts()
      : root_(std::filesystem::temp_directory_path() /
              ("phalanx_scripts_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "programs");
    std::filesystem::create_directories(root_ / "tools");
    for (const char* name :
         {"test", "quickstart", "tools/install-packages", "tools/packages.txt"}) {
      std::filesystem::copy_file(kSource / name, root_ / name);
    }
    // No package is installed. What stands in standard error when apt-get runs is kept.
    program("programs/dpkg-query", "exit 1");
    program("programs/apt-get", "cat stderr >stderr_before_apt");
    program("programs/sudo", "exec \"$@\"");
    program("programs/cmake", "exit 0");
    program("programs/ctest", "exit 0");
    for (const char* check : {"format", "headers", "tidy", "sanitizers", "fuzz", "kernels"}) {
      program(std::string("tools/check-") + check, "exit 0");
    }
  }
  ~Scripts() override { std::filesystem::remove_all(root_); }

  void program(const std::string& name, const std::string& command) const {
    std::ofstream(root_ / name) << "#!/bin/sh\n" << command << "\n";
    std::filesystem::permissions(root_ / name, std::filesystem::perms::owner_all);
  }
  // The exit status; output is in the files stdout and stderr.
  int run(const std::string& command) const {
    const int status =
        std::system(("cd '" + root_.string() +
                     "' && env -u PHALANX_SKIP_PACKAGES PATH=\"$PWD/programs:$PATH\" " + command +
                     " >stdout 2>stderr </dev/null")
                        .c_str());
    return WEXITSTATUS(status);
  }
  std::string read(const std::string& name) const { return text_of(root_ / name); }

  std::filesystem::path root_;
};

TEST(Rooms, ThePictureAndTheTableAreOfTheRooms) {
  const std::string check = "'" + source_path("tools/draw-rooms").string() + "' --check >&2";
  EXPECT_EQ(std::system(check.c_str()), 0) << "run tools/draw-rooms and look at docs/rooms.svg";
}

TEST_F(Scripts, WhatAptIsAboutToInstallIsSaidBefore) {
  for (const char* command : {"tools/install-packages text", "./quickstart", "./test -R none"}) {
    run(command);
    EXPECT_THAT(read("stderr_before_apt"), HasSubstr("apt-get installs")) << command;
    const bool only_text = std::string_view(command).ends_with("text");
    EXPECT_THAT(read("stderr_before_apt"), HasSubstr(only_text ? "bible-kjv" : "libdnnl-dev"))
        << command;
    program("stderr_before_apt", "");  // not the next command's
  }
}

TEST_F(Scripts, TestTellsItsFiveSlowestPartsBeforeTheCount) {
  program("tools/check-tidy", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
  EXPECT_EQ(run("./test --checks"), 0) << read("stdout");
  const std::vector<std::string> lines = lines_of(read("stdout"));
  ASSERT_GT(lines.size(), 7U) << read("stdout");
  EXPECT_THAT(lines.back(), testing::MatchesRegex("[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped"));
  EXPECT_THAT(lines[lines.size() - 7], testing::StartsWith("slowest parts"));
  EXPECT_THAT(lines[lines.size() - 6], testing::StartsWith("  tidy "));
  for (std::size_t i = lines.size() - 6; i + 1 < lines.size(); ++i) {
    EXPECT_THAT(lines[i], testing::MatchesRegex("  [a-z]+ +[0-9]+ s, +[0-9]+ s of processor time"));
  }
}

TEST_F(Scripts, QuickstartSaysInAFewLinesWhatEachStepTook) {
  std::filesystem::create_directories(root_ / "build/release");
  program("programs/bible", "echo 'gen1:1 In the beginning'");
  // A training of 400 iterations, and whatever else is asked of it.
  program("build/release/phalanx",
          "test $1 = pretrain || exit 0\n"
          "for i in $(seq 10 10 400); do\n"
          "  echo \" [now] iteration $i/ 400 | lm loss: 4.226800E+00 | loss scale: 1.0 |\"\n"
          "done");
  EXPECT_EQ(run("./quickstart"), 0) << read("stderr");
  const std::vector<std::string> lines = lines_of(read("stdout"));
  for (int step = 1; step <= 8; ++step) {
    const std::string number = "[" + std::to_string(step) + "/8] ";
    const auto begin = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.starts_with(number); });
    ASSERT_NE(begin, lines.end()) << number << "\n" << read("stdout");
    const auto took = std::find_if(begin, lines.end(), [](const std::string& line) {
      return std::regex_match(line, std::regex(R"(.* \(\d+ s\))"));
    });
    ASSERT_NE(took, lines.end()) << number << "\n" << read("stdout");
    EXPECT_TRUE(std::none_of(begin + 1, took, [](const std::string& line) {
      return line.starts_with("[");
    })) << number;
  }
  EXPECT_THAT(lines, testing::Contains("      iteration 300 of 400, loss 4.23"));
  EXPECT_LE(lines.size(), 22U) << read("stdout");
  EXPECT_EQ(lines_of(read("runs/quickstart/training.log")).size(), 40U);
}

TEST_F(Scripts, QuickstartUsesAnInstalledProgramOfItsVersionWhereNothingIsBuilt) {
  std::ofstream(root_ / "CMakeLists.txt") << "project(phalanx VERSION 3.1.4 LANGUAGES CXX)\n";
  program("programs/bible", "echo 'gen1:1 In the beginning'");
  program("programs/cmake", "touch cmake_ran; exit 1");
  const auto installed = [&](const std::string& version) {
    program("programs/phalanx", "test $1 = version && echo '  \"version\": \"" + version + "\",'");
  };
  const auto builds = [&](const std::string& command) {
    std::filesystem::remove(root_ / "cmake_ran");
    run(command);
    return std::filesystem::exists(root_ / "cmake_ran");
  };
  installed("3.1.4");
  EXPECT_FALSE(builds("./quickstart"));
  EXPECT_THAT(read("stdout"), HasSubstr("[2/8] program: " + (root_ / "programs/phalanx").string() +
                                        ", which is of this version"));
  EXPECT_THAT(read("stderr_before_apt"), Not(HasSubstr("libdnnl-dev")));
  EXPECT_TRUE(builds("./quickstart --build"));
  EXPECT_TRUE(builds("PHALANX_BUILD=1 ./quickstart"));
  installed("3.1.3");
  EXPECT_TRUE(builds("./quickstart"));
  installed("3.1.4");
  std::filesystem::create_directories(root_ / "build/release");
  program("build/release/phalanx", "exit 0");
  EXPECT_TRUE(builds("./quickstart"));
}

TEST_F(Scripts, WarningsAreErrorsInThePresetsOnly) {
  const std::string configure = "cmake -S '" + kSource.string() +
                                "' -B by_hand -G Ninja -DCMAKE_BUILD_TYPE=Release "
                                "-DPHALANX_TESTS=OFF -DPHALANX_BENCH=OFF";
  ASSERT_EQ(run("PATH=\"$PATH\" " + configure), 0) << read("stderr");  // the true program
  EXPECT_THAT(read("by_hand/compile_commands.json"), HasSubstr("-Wconversion"));
  EXPECT_THAT(read("by_hand/compile_commands.json"), Not(HasSubstr("-Werror")));
  EXPECT_THAT(text_of(kSource / "CMakePresets.json"), HasSubstr("\"PHALANX_WERROR\": \"ON\""));
}

// The table of exit codes has those of the code, under their names, and no others but 0, 1 and
// those of signals.
TEST(ExitCodes, ThePageHasThoseOfTheCode) {
  std::map<std::string, std::string> codes;  // by name
  const std::regex enumerator(R"(\s+(k[A-Z]\w*) = (\d+),)");
  for (const std::string& line : lines_of(text_of(kSource / "src/phalanx/base/error.h"))) {
    std::smatch match;
    if (std::regex_match(line, match, enumerator)) codes[match[1]] = match[2];
  }
  EXPECT_GE(codes.size(), 14U);
  std::map<std::string, std::string> told;
  std::vector<std::string> nameless;
  const std::regex row(R"(\| (\d+|128 \+ N) \| (?:`(\w+)` )?\| \S.*)");
  for (const std::string& line : lines_of(text_of(kSource / "docs/exit-codes.md"))) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    if (match[2].matched) {
      EXPECT_TRUE(told.emplace(match[2], match[1]).second) << line;
    } else {
      nameless.push_back(match[1]);
    }
  }
  EXPECT_EQ(told, codes);
  EXPECT_EQ(nameless, (std::vector<std::string>{"0", "1", "128 + N"}));
  for (const char* const place : {"README.md", "src/phalanx/cli/command_table.cc"}) {
    EXPECT_THAT(text_of(kSource / place), HasSubstr("docs/exit-codes.md")) << place;
  }
}

}  // namespace
}  // namespace phalanx
