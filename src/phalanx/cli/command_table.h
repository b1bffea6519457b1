#pragma once
// The commands of the program: what each is for, and how they are found.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/cli/commands.h"
#include "phalanx/flags/views.h"

namespace phalanx {

struct Command {
  std::string_view group;  // its heading in phalanx --help
  std::string_view name;
  std::string_view help;  // a line
  int (*run)(CommandIo&, const Arguments&);
};
std::span<const Command> command_table();

// phalanx --help.
std::string usage_text();

bool is_command(std::string_view word);
// Whether the command trains: such a process may join others, and signals make it save.
bool is_training_command(std::string_view word);
// Whether processes that a launcher starts with these words are ranks, which join each other.
bool has_ranks(std::span<const std::string> words);
// Runs the command that the first word names; UsageError if there is none.
int run_command(CommandIo& io, const std::vector<std::string>& words);

// The flags of every command and verb, as --help shows them; pretrain first, then plan.
std::vector<CommandFlags> all_command_flags(CommandIo& io);

}  // namespace phalanx
