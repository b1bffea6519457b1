#include <fmt/core.h>

#include <array>
#include <string_view>

#include "phalanx/cli/command_table.h"
#include "phalanx/cli/verb.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

// `help` is followed by the name of a command.
void add_words_of_help(std::vector<CommandFlags>& commands) {
  for (const Command& command : command_table()) {
    if (command.name == "help") continue;
    commands.push_back({fmt::format("help {}", command.name), std::string(command.help), {}});
  }
}

// The families have one table of flags, which stands under the first one's name.
void add_families(std::vector<CommandFlags>& commands) {
  const auto families = known_families();
  const std::string first = fmt::format(" {}", families.front()->name());
  for (CommandFlags& command : commands) {
    if (!command.words.ends_with(first)) continue;
    const std::string verb = command.words.substr(0, command.words.size() - first.size());
    for (const auto& family : families.subspan(1)) {
      command.other_words.push_back(fmt::format("{} {}", verb, family->name()));
    }
  }
}

void add_examples(FlagSet& flags, std::string_view shell) {
  if (shell == "bash") {
    flags.add_example("source <(phalanx completion bash)", "in this shell");
    flags.add_example(
        "phalanx completion bash > ~/.local/share/bash-completion/completions/phalanx",
        "in every shell");
  } else if (shell == "zsh") {
    flags.add_example("source <(phalanx completion zsh)", "in this shell, behind compinit");
    flags.add_example("phalanx completion zsh > \"${fpath[1]}/_phalanx\"", "in every shell");
  } else {
    flags.add_example("phalanx completion fish | source", "in this shell");
    flags.add_example("phalanx completion fish > ~/.config/fish/completions/phalanx.fish",
                      "in every shell");
  }
}

}  // namespace

int run_completion(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 3> kShells = {
      {{"bash", "for bash 4 and later"}, {"zsh", "for zsh"}, {"fish", "for fish"}}};
  const std::string shell = verb_of("phalanx completion", kShells, arguments);
  FlagSet flags("phalanx completion " + shell,
                fmt::format("A script for {} that completes commands, flags and values.", shell));
  add_examples(flags, shell);
  flags.parse({arguments.begin() + 1, arguments.end()});
  std::vector<CommandFlags> commands = all_command_flags(io);
  add_words_of_help(commands);
  add_families(commands);
  io.put(completion_script(shell, commands));
  return 0;
}

}  // namespace phalanx
