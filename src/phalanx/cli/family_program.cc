#include "phalanx/cli/family_program.h"

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/program.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

// The program, and the family that it brings.
struct Owner {
  std::string program;
  std::shared_ptr<const ModelFamily> family;
};

struct OwnCommand {
  std::string_view name;
  std::string_view help;  // a line
  int (*run)(CommandIo& io, const Owner& owner, const std::string& typed,
             const Arguments& arguments);
};

constexpr OwnCommand kOwnCommands[] = {
    {"pretrain", "trains; also where FLAGS follow without a command",
     [](CommandIo& io, const Owner& owner, const std::string& typed, const Arguments& arguments) {
       return pretrain(io, {typed, owner.family, arguments});
     }},
    {"plan", "a run's memory and messages, nothing allocated",
     [](CommandIo& io, const Owner& owner, const std::string& typed, const Arguments& arguments) {
       return plan(io, {typed, owner.family, arguments});
     }},
    {"score", "the log probability of each token of a text",
     [](CommandIo& io, const Owner& owner, const std::string& typed, const Arguments& arguments) {
       return score(io, {typed, owner.family}, arguments);
     }},
    {"generate", "text from a checkpoint",
     [](CommandIo& io, const Owner& owner, const std::string& typed, const Arguments& arguments) {
       return generate(io, {typed, owner.family}, arguments);
     }},
};

std::string usage_of(const Owner& owner) {
  std::string text =
      fmt::format("{0}: trains a {1}, with Phalanx {2}\n\nusage: {0} COMMAND ...\n\n",
                  owner.program, owner.family->title(), PHALANX_VERSION);
  for (const OwnCommand& command : kOwnCommands) {
    text += fmt::format("  {:<16} {}\n", command.name, command.help);
  }
  text += fmt::format("  {:<16} {}\n", "help", "the flags of a command: help COMMAND");
  text += fmt::format(
      "\n{} COMMAND --help lists the flags of a command. What is there for every model - launch,\n"
      "checkpoint, report, preprocess-data and others - is phalanx's: phalanx --help.\n",
      owner.program);
  return text;
}

bool is_help(std::string_view word) { return word == "help" || word == "--help" || word == "-h"; }

bool begins_training(std::string_view word) {
  return word == kOwnCommands[0].name || (word.starts_with("-") && !is_help(word));
}

int run_own_command(CommandIo& io, const Owner& owner, const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", usage_of(owner));
    return static_cast<int>(ErrorCode::kUsage);
  }
  if (is_help(words[0]) && words.size() == 1) throw HelpRequested{.text = usage_of(owner)};
  if (words[0] == "help") return run_own_command(io, owner, {words[1], "--help"});
  if (begins_training(words[0]) && words[0].starts_with("-")) {
    Arguments all = words;
    all.insert(all.begin(), std::string(kOwnCommands[0].name));
    return run_own_command(io, owner, all);
  }
  std::vector<std::string> names;
  for (const OwnCommand& command : kOwnCommands) {
    if (command.name == words[0]) {
      return command.run(io, owner, fmt::format("{} {}", owner.program, command.name),
                         {words.begin() + 1, words.end()});
    }
    names.emplace_back(command.name);
  }
  const auto meant = nearest(words[0], names);
  throw UsageError("unknown command {}{} ({} --help lists the commands)", words[0],
                   meant ? "; did you mean " + *meant + "?" : "", owner.program);
}

}  // namespace

int run_family_program(std::shared_ptr<const ModelFamily> family, int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  Owner owner{std::string(path.substr(path.rfind('/') + 1)), std::move(family)};
  if (owner.program.empty()) owner.program = owner.family->name();
  return run_program({.name = owner.program,
                      .run =
                          [&owner](CommandIo& io, const std::vector<std::string>& words) {
                            return run_own_command(io, owner, words);
                          },
                      .trains = begins_training},
                     argc, argv);
}

}  // namespace phalanx
