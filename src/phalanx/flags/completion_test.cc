#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Lines = std::vector<std::string>;

constexpr std::string_view kNasty =
    R"(It's "all": [here] {0} $(false) $HOME `false` \ \n 100% *? | & ; ~ # end)";

// Some commands, with a flag of each kind.
std::vector<CommandFlags> commands() {
  FlagSet train("phalanx train gpt", "Trains.");
  train.add({.name = "--num-layers", .type = FlagType::kInteger, .help = "Layers"});
  train.add({.name = "--num_heads", .type = FlagType::kInteger, .help = "Heads"});
  train.add({.name = "--lr", .type = FlagType::kReal, .help = "Rate"});
  train.add({.name = "--split", .type = FlagType::kNumbers, .help = "Shares"});
  train.add({.name = "--fast", .help = kNasty});
  train.add({.name = "--style",
             .aliases = "--decay-style",
             .type = FlagType::kText,
             .help = "How it falls",
             .choices = "linear cosine"});
  train.add(
      {.name = "--nasty", .type = FlagType::kText, .help = "Choices", .choices = R"(a'b c$d e\f)"});
  train.add({.name = "--save", .type = FlagType::kText, .help = "Directory", .value_name = "DIR"});
  train.add(
      {.name = "--data-path", .type = FlagType::kList, .help = "Data", .value_name = "PREFIX"});
  train.add({.name = "--note", .type = FlagType::kText, .help = "A remark"});
  train.add({.name = "--kinds", .type = FlagType::kList, .help = "Kinds", .choices = "a b"});
  train.add({.name = "--optimizer",
             .type = FlagType::kText,
             .state = FlagState::kSatisfied,
             .reason = "it is Adam",
             .satisfied_by = "adam",
             .otherwise = "others are not there"});
  train.add({.name = "--fp8", .state = FlagState::kRefused, .reason = "not there"});
  FlagSet info("phalanx data info", "Tells.");
  info.add({.name = "--json", .help = "JSON"});
  return {{"train gpt", "train a model", train.rows(), false, {"train t5"}},
          {"data", "what is in data", {}},
          {"data info", "what is there", info.rows(), true},
          {"data check", std::string(kNasty), {}},
          {"version", "the version", {}}};
}

bool is_installed(const std::string& shell) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", shell).c_str()) == 0;
}

// The lines that a script of a shell prints. It has a directory of its own, with two files.
Lines run(const std::string& shell, const std::string& script) {
  std::string directory = testing::TempDir() + "phalanx_completion_XXXXXX";
  PHALANX_CHECK(::mkdtemp(directory.data()) != nullptr, "cannot make {}", directory);
  const std::string file = directory + "/script";
  std::ofstream(file) << script;
  std::filesystem::create_directory(directory + "/files");
  std::ofstream(directory + "/files/two.bin") << "2";
  std::ofstream(directory + "/files/twenty.bin") << "20";
  const std::string command = fmt::format(
      "cd '{0}/files' && HOME='{0}' {1} ../script >../out 2>&1 </dev/null", directory, shell);
  EXPECT_EQ(std::system(command.c_str()), 0) << script;
  std::ifstream out(directory + "/out");
  Lines lines;
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  std::filesystem::remove_all(directory);
  return lines;
}

// What each of the command lines, cut into words, is completed to. `complete` is a shell function
// that completes its arguments; the last one is the unfinished word.
std::vector<Lines> completions(const std::string& shell, std::string script,
                               const std::vector<std::string>& calls) {
  for (const auto& call : calls) script += call + "\necho '(next call)'\n";
  std::vector<Lines> results(1);
  for (auto& line : run(shell, script)) {
    if (line == "(next call)") {
      results.emplace_back();
    } else {
      results.back().push_back(std::move(line));
    }
  }
  results.pop_back();
  return results;
}

// Files are told as a word: readline lists them.
std::vector<Lines> bash(const std::vector<std::string>& calls) {
  constexpr std::string_view kDriver = R"(
compopt() { echo "files: $*"; }
try() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _phalanx
  for word in "${COMPREPLY[@]}"; do printf '%s\n' "$word"; done
}
)";
  auto results =
      completions("bash", completion_script("bash", commands()) + std::string(kDriver), calls);
  EXPECT_EQ(results.size(), calls.size());
  results.resize(calls.size());
  return results;
}

class BashCompletion : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  }
};

TEST_F(BashCompletion, CompletesCommands) {
  const auto is = bash({"try phalanx ''", "try phalanx d", "try phalanx data ''",
                        "try phalanx data c", "try phalanx -", "try phalanx nonsense ''"});
  EXPECT_THAT(is[0], ElementsAre("train", "data", "version"));
  EXPECT_THAT(is[1], ElementsAre("data"));
  EXPECT_THAT(is[2], ElementsAre("info", "check"));
  EXPECT_THAT(is[3], ElementsAre("check"));
  EXPECT_THAT(is[4], ElementsAre("--help"));
  EXPECT_THAT(is[5], ElementsAre("train", "data", "version"));
  // Two that have the same flags.
  const auto same = bash({"try phalanx train ''", "try phalanx train t5 --style ''"});
  EXPECT_THAT(same[0], ElementsAre("gpt", "t5"));
  EXPECT_THAT(same[1], ElementsAre("linear", "cosine"));
}

TEST_F(BashCompletion, CompletesFlagsOfTheCommand) {
  const auto is = bash({"try phalanx train gpt ''", "try phalanx train gpt --num",
                        "try phalanx train gpt --fast --sty", "try phalanx data info -",
                        "try phalanx train gpt --num-layers 2 --fa", "try phalanx data info ''"});
  EXPECT_THAT(is[0], ElementsAre("--num-layers", "--num_heads", "--lr", "--split", "--fast",
                                 "--style", "--nasty", "--save", "--data-path", "--note", "--kinds",
                                 "--optimizer", "--help"));
  EXPECT_THAT(is[1], ElementsAre("--num-layers", "--num_heads"));
  EXPECT_THAT(is[2], ElementsAre("--style"));
  EXPECT_THAT(is[3], ElementsAre("--json", "--help"));
  EXPECT_THAT(is[4], ElementsAre("--fast"));
  EXPECT_THAT(is[5], ElementsAre("files: -o default"));
}

TEST_F(BashCompletion, CompletesValues) {
  const auto is = bash({
      "try phalanx train gpt --style ''",
      "try phalanx train gpt --style c",
      "try phalanx train gpt --decay_style = ''",
      "try phalanx train gpt --style =",
      "try phalanx train gpt --style = li",
      "try phalanx train gpt --nasty ''",
      "try phalanx train gpt --optimizer ''",
      "try phalanx train gpt --save tw",
      "try phalanx train gpt --num-layers ''",
      "try phalanx train gpt --num-heads ''",
      "try phalanx train gpt --lr ''",
      "try phalanx train gpt --split ''",
      "try phalanx train gpt --fast l",
      "try phalanx train gpt --style linear c",
      "try phalanx train gpt --note tw",
  });
  EXPECT_THAT(is[0], ElementsAre("linear", "cosine"));
  EXPECT_THAT(is[1], ElementsAre("cosine"));
  EXPECT_THAT(is[2], ElementsAre("linear", "cosine"));
  EXPECT_THAT(is[3], ElementsAre("linear", "cosine"));
  EXPECT_THAT(is[4], ElementsAre("linear"));
  EXPECT_THAT(is[5], ElementsAre("a'b", "c$d", R"(e\f)"));
  EXPECT_THAT(is[6], ElementsAre("adam"));
  EXPECT_THAT(is[7], ElementsAre("files: -o default"));
  for (std::size_t i = 8; i < is.size(); ++i) EXPECT_THAT(is[i], IsEmpty()) << i;
}

TEST_F(BashCompletion, ListsGoOnUntilTheNextFlag) {
  const auto is = bash(
      {"try phalanx train gpt --data-path 0.3 tw", "try phalanx train gpt --data-path 0.3 a --sa",
       "try phalanx train gpt --kinds a b ''", "try phalanx train gpt --data-path a --fast tw"});
  EXPECT_THAT(is[0], ElementsAre("files: -o default"));
  EXPECT_THAT(is[1], ElementsAre("--save"));
  EXPECT_THAT(is[2], ElementsAre("a", "b"));
  EXPECT_THAT(is[3], IsEmpty());
}

// The script with what its shell's completion system would do replaced by what it is told.
std::vector<Lines> zsh(const std::vector<std::string>& calls) {
  constexpr std::string_view kDriver = R"(
_files() { echo files }
_message() { echo "message: $1" }
_describe() { print -rl -- "${(@P)2}" }
compadd() { shift; print -rl -- "$@" }
compset() { echo "compset $*" }
try() {
  local -a words=("$@")
  local CURRENT=$# PREFIX=${@[-1]}
  _phalanx
}
)";
  auto results = completions(
      "zsh -f", "compdef() { }\n" + completion_script("zsh", commands()) + std::string(kDriver),
      calls);
  EXPECT_EQ(results.size(), calls.size());
  results.resize(calls.size());
  return results;
}

TEST(ZshCompletion, CompletesCommandsFlagsAndValues) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const auto is = zsh({
      "try phalanx ''",
      "try phalanx data ''",
      "try phalanx data info -",
      "try phalanx data info ''",
      "try phalanx train gpt --fast ''",
      "try phalanx train gpt --style ''",
      "try phalanx train gpt --decay_style=li",
      "try phalanx train gpt --nasty ''",
      "try phalanx train gpt --save tw",
      "try phalanx train gpt --data-path 0.3 tw",
      "try phalanx train gpt --num-heads ''",
      "try phalanx train gpt --note tw",
  });
  EXPECT_THAT(is[0], ElementsAre("train", "data:what is in data", "version:the version"));
  EXPECT_THAT(is[1], ElementsAre("info:what is there", "check:" + std::string(kNasty)));
  EXPECT_THAT(is[2], ElementsAre("--json:JSON", "--help:What the flags are"));
  EXPECT_THAT(is[3], ElementsAre("files"));
  EXPECT_THAT(is[4], Contains("--fast:" + std::string(kNasty)));
  EXPECT_THAT(is[4], Contains("--optimizer:it is Adam"));
  EXPECT_THAT(is[4], Not(Contains(HasSubstr("--fp8"))));
  EXPECT_THAT(is[5], ElementsAre("linear", "cosine"));
  EXPECT_THAT(is[6], ElementsAre("compset -P 1 *=", "linear", "cosine"));
  EXPECT_THAT(is[7], ElementsAre("a'b", "c$d", R"(e\f)"));
  EXPECT_THAT(is[8], ElementsAre("files"));
  EXPECT_THAT(is[9], ElementsAre("files"));
  EXPECT_THAT(is[10], ElementsAre("message: a number"));
  EXPECT_THAT(is[11], ElementsAre("message: a text"));
}

// fish tells what it would offer: words and descriptions between tabs.
std::vector<Lines> fish(const std::vector<std::string>& calls) {
  std::vector<std::string> asking;
  for (const auto& call : calls) asking.push_back(fmt::format("complete -C \"{}\"", call));
  auto results = completions("fish --no-config", completion_script("fish", commands()), asking);
  EXPECT_EQ(results.size(), calls.size());
  results.resize(calls.size());
  return results;
}

TEST(FishCompletion, CompletesCommandsFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  const auto is = fish({
      "phalanx ",
      "phalanx data ",
      "phalanx data info -",
      "phalanx data info tw",
      "phalanx train gpt --fa",
      "phalanx train gpt --style ",
      "phalanx train gpt --style=li",
      "phalanx train gpt --nasty ",
      "phalanx train gpt --save tw",
      "phalanx train gpt --data-path 0.3 tw",
      "phalanx train gpt --kinds a ",
      "phalanx train gpt --num-layers ",
      "phalanx train gpt --fast tw",
      "phalanx train gpt --",
      "phalanx train gpt --note tw",
      "phalanx train t5 --style ",
  });
  EXPECT_THAT(is[0], ElementsAre("data\twhat is in data", "train", "version\tthe version"));
  EXPECT_THAT(is[1], ElementsAre("check\t" + std::string(kNasty), "info\twhat is there"));
  EXPECT_THAT(is[2], Contains("--json\tJSON"));
  EXPECT_THAT(is[3], ElementsAre("twenty.bin", "two.bin"));
  EXPECT_THAT(is[4], ElementsAre("--fast\t" + std::string(kNasty)));
  EXPECT_THAT(is[5], ElementsAre("cosine\tHow it falls", "linear\tHow it falls"));
  EXPECT_THAT(is[6], ElementsAre("--style=linear\tHow it falls"));
  EXPECT_THAT(is[7], ElementsAre("a'b\tChoices", "c$d\tChoices", "e\\f\tChoices"));
  EXPECT_THAT(is[8], ElementsAre("twenty.bin", "two.bin"));
  EXPECT_THAT(is[9], ElementsAre("twenty.bin", "two.bin"));
  EXPECT_THAT(is[10], ElementsAre("a", "b"));
  EXPECT_THAT(is[11], IsEmpty());
  EXPECT_THAT(is[12], IsEmpty());
  EXPECT_THAT(is[13], Contains("--optimizer\tit is Adam"));
  EXPECT_THAT(is[13], Not(Contains(HasSubstr("--fp8"))));
  EXPECT_THAT(is[13], Not(Contains(HasSubstr("--json"))));
  EXPECT_THAT(is[14], IsEmpty());
  EXPECT_THAT(is[15], ElementsAre("cosine\tHow it falls", "linear\tHow it falls"));
}

// Whatever the shell that is asked for, the scripts can be read.
TEST(Completion, ScriptsHaveNoSyntaxErrors) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(completion_script(shell, commands()), HasSubstr("phalanx")) << shell;
    if (!is_installed(shell)) continue;
    EXPECT_THAT(run(shell + " -n", completion_script(shell, commands())), IsEmpty()) << shell;
    EXPECT_THAT(run(shell + " -n", completion_script(shell, {})), IsEmpty()) << shell;
  }
}

TEST(Completion, KnowsThreeShells) {
  EXPECT_EQ(error_of<UsageError>([&] { completion_script("tcsh", commands()); }),
            "say bash, zsh or fish, not tcsh");
}

}  // namespace
}  // namespace phalanx
