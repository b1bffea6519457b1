#include "phalanx/cli/command_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cli/standard_io.h"
#include "phalanx/flags/flag_set.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

CommandIo& io() {
  static StandardIo streams;
  return streams;
}

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
  EXPECT_THAT(error_of<UsageError>([&] {
                run_command(io(), {"pretain", "gpt"});
              }),
              HasSubstr("did you mean pretrain?"));
}

// What shells and the page of flags are made of.
TEST(CommandTable, KnowsTheFlagsOfCommandsAndVerbs) {
  const auto commands = all_command_flags(io());
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
    run_command(io(), words);
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

// A flag of a command that completion offers.
struct Offered {
  std::string command;
  const FlagRow* row;
  std::vector<std::string_view> choices;
};

std::vector<Offered> offered_flags(const std::vector<CommandFlags>& commands) {
  std::vector<Offered> flags;
  for (const CommandFlags& command : commands) {
    for (const FlagRow& row : command.rows) {
      const FlagSpec& spec = row.spec;
      if (spec.state == FlagState::kRefused || row.type == FlagType::kSwitch) continue;
      flags.push_back(
          {command.words, &row, words_of(spec.choices.empty() ? spec.satisfied_by : spec.choices)});
    }
  }
  return flags;
}

// What bash completes behind each of the flags: lines of words.
std::vector<std::string> completed_by_bash(const std::vector<CommandFlags>& commands,
                                           const std::vector<Offered>& flags) {
  std::string script = completion_script("bash", commands) + R"(
try() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _phalanx
  echo "${COMPREPLY[*]}"
}
)";
  for (const Offered& flag : flags) {
    script += fmt::format("try phalanx {} {} ''\n", flag.command, flag.row->spec.name);
  }
  const std::string name = fmt::format("{}phalanx_choices_{}", testing::TempDir(), ::getpid());
  std::ofstream(name) << script;
  EXPECT_EQ(std::system(fmt::format("bash '{0}' > '{0}.out' 2>&1", name).c_str()), 0);
  std::vector<std::string> lines;
  std::ifstream out(name + ".out");
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  for (const auto& file : {name, name + ".out"}) std::remove(file.c_str());
  return lines;
}

// Whatever table a flag stands in: who gives it choices completes them.
TEST(CommandTable, EveryFlagWithChoicesCompletesThem) {
  if (std::system("command -v bash >/dev/null 2>&1") != 0) GTEST_SKIP() << "bash is not installed";
  const auto commands = all_command_flags(io());
  auto flags = offered_flags(commands);
  std::erase_if(flags, [](const Offered& flag) { return flag.choices.empty(); });
  EXPECT_GT(flags.size(), 60U);
  const auto completed = completed_by_bash(commands, flags);
  ASSERT_EQ(completed.size(), flags.size());
  for (std::size_t i = 0; i < flags.size(); ++i) {
    EXPECT_EQ(completed[i], fmt::format("{}", fmt::join(flags[i].choices, " ")))
        << flags[i].command << " " << flags[i].row->spec.name;
  }
  // zsh has the same branches, fish a line for each flag.
  const std::string bash = completion_script("bash", commands);
  const std::string zsh = completion_script("zsh", commands);
  std::istringstream lines(bash);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" takes=choice choices=(") == line.npos) continue;
    EXPECT_NE(zsh.find(line + "\n"), zsh.npos) << line;
  }
  const std::string fish = completion_script("fish", commands);
  for (const Offered& flag : flags) {
    const std::string words = fmt::format("\\'{}\\'", fmt::join(flag.choices, "\\' \\'"));
    const std::string line =
        fmt::format("complete -c phalanx -n '__phalanx_in {}' -l {} -x -a '{}' -d ", flag.command,
                    flag.row->spec.name.substr(2), words);
    EXPECT_NE(fish.find(line), fish.npos) << line;
  }
}

// A text has choices, or is the name of something on a disk, or is one of these, which only the
// user knows. Who adds a flag with a few possible values meets this list.
TEST(CommandTable, ATextWithoutChoicesIsAPathOrAnybodysGuess) {
  const std::set<std::string_view> open = {"--allow-changed",
                                           "--chat-template-args",
                                           "--chat-template-date",
                                           "--cluster",
                                           "--compare",
                                           "--costs",
                                           "--device",
                                           "--disk-bandwidth",
                                           "--document-separator",
                                           "--documents",
                                           "--encoder-costs",
                                           "--freeze",
                                           "--hierarchical-context-parallel-sizes",
                                           "--iterations-to-skip",
                                           "--json-keys",
                                           "--label-column",
                                           "--labels",
                                           "--local-ranks-filter",
                                           "--lora-layers",
                                           "--man",
                                           "--master-addr",
                                           "--moe-aux-loss-coeff",
                                           "--moe-layer-freq",
                                           "--moe-router-group-score",
                                           "--moe-router-load-balancing-type",
                                           "--nnodes",
                                           "--nproc-per-node",
                                           "--prompt",
                                           "--rampup-batch-size",
                                           "--rank-order",
                                           "--rdzv-conf",
                                           "--rdzv-endpoint",
                                           "--rdzv-id",
                                           "--redirects",
                                           "--role",
                                           "--set",
                                           "--signals-to-handle",
                                           "--step-batch-size-schedule",
                                           "--stop",
                                           "--system",
                                           "--target",
                                           "--task",
                                           "--tee",
                                           "--text-columns",
                                           "--tiktoken-special-tokens",
                                           "--tokens",
                                           "--trainable",
                                           "--window-attn-skip-freq",
                                           "--window-size"};
  const auto commands = all_command_flags(io());
  for (const Offered& flag : offered_flags(commands)) {
    const FlagSpec& spec = flag.row->spec;
    const bool is_text = flag.row->type == FlagType::kText || flag.row->type == FlagType::kList;
    const bool does_nothing = spec.state != FlagState::kWorks;
    const bool is_path =
        std::ranges::any_of(std::array{"FILE", "DIR", "PATH", "PREFIX"},
                            [&](const char* word) { return spec.value_name.starts_with(word); });
    if (!is_text || does_nothing || is_path || !flag.choices.empty()) continue;
    EXPECT_TRUE(open.contains(spec.name))
        << flag.command << " " << spec.name << " " << spec.value_name << ": has it choices?";
  }
}

std::string text_of_page(const std::string& name) {
  std::ifstream file(source_path(name), std::ios::binary);
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
  const std::string made = flags_page(all_command_flags(io()));
  const auto [old_end, new_end] = std::ranges::mismatch(page, made);
  EXPECT_TRUE(page == made)
      << "docs/flags.md is not what the table says; make it anew:\n"
         "  build/release/phalanx help --markdown > docs/flags.md\nThe first difference is in line "
      << std::count(made.begin(), new_end, '\n') + 1;
}

}  // namespace
}  // namespace phalanx
