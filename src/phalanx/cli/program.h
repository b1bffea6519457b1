#pragma once
// What main() does around the commands of a program: of phalanx itself, and of programs that bring
// a model family (family_program.h).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/cli/command_io.h"

namespace phalanx {

struct CommandProgram {
  std::string name;  // messages begin with it
  // Runs the command that the words name and returns the exit status; errors and HelpRequested are
  // thrown.
  std::function<int(CommandIo& io, const std::vector<std::string>& words)> run;
  // Whether a call with this first word trains: then a signal asks it to save, from the very
  // beginning.
  std::function<bool(std::string_view word)> trains;
};

// Returns the exit status (docs/exit-codes.md). An error is printed on standard error, a line for
// each fault, with the command that was typed; it is also left where a launcher reads it.
int run_program(const CommandProgram& program, int argc, char** argv);

}  // namespace phalanx
