#pragma once
// What the main() of a program of commands does around them: phalanx itself, and programs that
// bring a model family of their own (family_program.h).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

struct CommandProgram {
  std::string name;  // messages begin with it
  // Runs the command that the words name and returns the exit status; errors and HelpRequested are
  // thrown.
  std::function<int(const std::vector<std::string>& words)> run;
  // Whether the call with this first word trains: a signal then asks it to save, however early.
  std::function<bool(std::string_view word)> trains;
};

// Returns the exit status, docs/exit-codes.md. An error is a line on standard error for each fault,
// with the command that was typed, and is left for a launcher to read.
int run_program(const CommandProgram& program, int argc, char** argv);

}  // namespace phalanx
