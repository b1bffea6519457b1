#include "phalanx/cli/man_pages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/standard_io.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

CommandIo& io() {
  static StandardIo streams;
  return streams;
}

std::map<std::string, std::string> pages() {
  std::map<std::string, std::string> found;
  for (NamedPage& page : all_man_pages(io())) {
    EXPECT_TRUE(found.emplace(page.name, std::move(page.text)).second) << page.name;
  }
  return found;
}

TEST(ManPages, AreThereForEveryCommand) {
  const auto all = pages();
  EXPECT_TRUE(all.contains("phalanx"));
  for (const CommandFlags& command : all_command_flags(io())) {
    std::string name = "phalanx-" + command.words;
    std::ranges::replace(name, ' ', '-');
    ASSERT_TRUE(all.contains(name)) << name;
    for (const FlagRow& row : command.rows) {
      if (row.spec.state != FlagState::kWorks) continue;
      const std::string flag =
          std::regex_replace(std::string(row.spec.name), std::regex("-"), "\\-");
      EXPECT_THAT(all.at(name), HasSubstr(fmt::format("\n\\fB{}\\fR", flag)));
    }
  }
  EXPECT_EQ(all.at("phalanx-pretrain-bert"), ".so man1/phalanx-pretrain-gpt.1\n");
  EXPECT_EQ(all.at("phalanx-pretrain"), ".so man1/phalanx-pretrain-gpt.1\n");
}

// Requests that the pages use, escapes that roff knows, and pages that are there.
TEST(ManPages, AreWellFormed) {
  const std::set<std::string> requests = {".TH", ".SH", ".SS", ".TP", ".PP", ".RS",
                                          ".RE", ".nf", ".fi", ".nh", ".ad", ".so"};
  const std::regex escapes(R"(\\(f[BIR]|e|-|&|:|\((dq|aq|ga|ha|ti)))");
  const std::regex references(R"(\\fB([a-z\\-]+)\\fR\(1\))");
  const auto all = pages();
  for (const auto& [name, text] : all) {
    int literal = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_FALSE(line.empty()) << name;
      EXPECT_FALSE(line.starts_with('\'')) << name << ": " << line;
      if (line.starts_with('.')) {
        EXPECT_TRUE(requests.contains(line.substr(0, 3))) << name << ": " << line;
        EXPECT_EQ(std::ranges::count(line, '"') % 2, 0) << name << ": " << line;
        literal += line == ".nf" ? 1 : 0;
        literal -= line == ".fi" ? 1 : 0;
      }
      const std::string rest = std::regex_replace(line, escapes, "");
      EXPECT_EQ(rest.find('\\'), rest.npos) << name << ": " << line;
      for (std::sregex_iterator found(line.begin(), line.end(), references), end; found != end;
           ++found) {
        std::string other = (*found)[1];
        std::erase(other, '\\');
        EXPECT_TRUE(all.contains(other)) << name << " names " << other;
      }
    }
    EXPECT_EQ(literal, 0) << name;
    const bool points = text.starts_with(".so ");
    EXPECT_TRUE(points || text.starts_with(".TH \"PHALANX")) << name;
    EXPECT_TRUE(points || text.find("\n.SH \"NAME\"\n") != text.npos) << name;
  }
}

TEST(ManPages, HaveTheExitCodesOfTheirPage) {
  std::ifstream file(source_path("docs/exit-codes.md"));
  const std::string page = man_page_of(io(), "phalanx");
  for (std::string line; std::getline(file, line);) {
    std::smatch code;
    if (!std::regex_search(line, code, std::regex(R"(^\| ([0-9]+(?: \+ N)?) \|)"))) continue;
    EXPECT_THAT(page, HasSubstr(fmt::format("\n\\fB{}\\fR\n", code.str(1))));
  }
}

TEST(ManPages, AreFoundByTheNamesOfCommands) {
  EXPECT_THAT(man_page_of(io(), "dataset info"),
              testing::StartsWith(".TH \"PHALANX\\-DATASET\\-INFO\""));
  EXPECT_EQ(man_page_of(io(), "phalanx dataset info"), man_page_of(io(), "dataset info"));
  EXPECT_EQ(man_page_of(io(), "pretrain t5"), man_page_of(io(), "pretrain gpt"));
  EXPECT_THAT(error_of<UsageError>([] { man_page_of(io(), "dataset inf"); }),
              HasSubstr("no such command"));
}

}  // namespace
}  // namespace phalanx
