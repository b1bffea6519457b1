#include "phalanx/cli/command_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

TEST(CommandTable, HasEachNameOnceAndGroupsTogether) {
  std::set<std::string_view> names, groups;
  std::string_view group;
  for (const Command& command : command_table()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    const bool begins = command.group != group;
    EXPECT_TRUE(!begins || groups.insert(command.group).second) << command.group;
    group = command.group;
    EXPECT_LE(command.help.size() + 19, 100U) << command.name;
  }
}

TEST(CommandTable, UsageHasALineForEachCommand) {
  const std::string text = usage_text();
  for (const Command& command : command_table()) {
    EXPECT_THAT(text, HasSubstr("\n  " + std::string(command.name) + " ")) << command.name;
  }
  EXPECT_THAT(text, HasSubstr("\nTrain and use models:\n  pretrain "));
}

TEST(CommandTable, NamesTheNearestCommand) {
  try {
    run_command({"pretain", "gpt"});
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean pretrain?"));
  }
}

// What shells and the page of flags are made of.
TEST(CommandTable, KnowsTheFlagsOfCommandsAndVerbs) {
  const auto commands = all_command_flags();
  const auto find = [&](std::string_view words) {
    const auto found = std::ranges::find(commands, words, &CommandFlags::words);
    EXPECT_NE(found, commands.end()) << words;
    return found == commands.end() ? CommandFlags{} : *found;
  };
  const auto has = [](const CommandFlags& command, std::string_view flag) {
    return std::ranges::any_of(command.rows,
                               [&](const FlagRow& row) { return row.spec.name == flag; });
  };
  EXPECT_TRUE(has(find("pretrain gpt"), "--num-layers"));
  EXPECT_TRUE(has(find("plan gpt"), "--world-size"));
  EXPECT_TRUE(has(find("dataset samples"), "--of"));
  EXPECT_TRUE(find("checkpoint diff").takes_files);
  EXPECT_TRUE(find("dataset info").takes_files);
  EXPECT_FALSE(find("dataset merge").takes_files);
  EXPECT_EQ(find("import llmc").help, "llm.c's model and token files into DIR.");
  EXPECT_TRUE(find("dataset").rows.empty());
  EXPECT_TRUE(find("pretrain").rows.empty());
}

HelpRequested help_of(const std::vector<std::string>& words) {
  try {
    run_command(words);
  } catch (const HelpRequested& help) {
    return help;
  }
  ADD_FAILURE() << words[0] << " has no --help";
  return {};
}

// Where the words behind a flag, or behind the name of another thing, begin; npos where they are in
// the next line.
std::size_t column_of_meaning(std::string_view line) {
  constexpr std::size_t kIndent = 2;
  return line.find_first_not_of(' ', line.find("  ", kIndent));
}

void expect_two_columns(const HelpRequested& help) {
  SCOPED_TRACE(help.command);
  const std::string text = help.text.substr(0, help.text.find("\nExamples:\n"));
  std::set<std::size_t> columns;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    if (!line.starts_with("  ")) continue;
    const bool is_entry = line[2] != ' ';
    columns.insert(is_entry ? column_of_meaning(line) : line.find_first_not_of(' '));
  }
  columns.erase(std::string::npos);
  EXPECT_LE(columns.size(), 1U) << text;
}

TEST(CommandTable, HelpHasTwoColumns) {
  for (const Command& command : command_table()) {
    const std::string name(command.name);
    const HelpRequested help = help_of({name, "--help"});
    expect_two_columns(help);
    for (const std::string& verb : help.verbs) expect_two_columns(help_of({name, verb, "--help"}));
  }
}

std::string text_of_page(const std::string& name) {
  std::ifstream file(PHALANX_SOURCE_DIR "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(CommandTable, ReadmeShowsEveryCommand) {
  const std::string page = text_of_page("README.md");
  for (const Command& command : command_table()) {
    if (command.name == "help") continue;
    EXPECT_NE(page.find(command.name), page.npos) << command.name;
  }
}

TEST(CommandTable, FlagsPageIsWhatDocsHave) {
  const std::string page = text_of_page("docs/flags.md");
  const std::string made = flags_page(all_command_flags());
  const auto [old_end, new_end] = std::ranges::mismatch(page, made);
  EXPECT_TRUE(page == made)
      << "docs/flags.md is not what the table says; make it anew:\n"
         "  build/release/phalanx help --markdown > docs/flags.md\nThe first difference is in line "
      << std::count(made.begin(), new_end, '\n') + 1;
}

}  // namespace
}  // namespace phalanx
