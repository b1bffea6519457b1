#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/program.h"

namespace phalanx {
namespace {

int run_call(CommandIo& io, const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", usage_text());
    return static_cast<int>(ErrorCode::kUsage);
  }
  if (words[0] == "--help" || words[0] == "-h") return run_help(io, {});
  if (words[0] == "--version") return run_version(io, {});
  return run_command(io, words);
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  return phalanx::run_program(
      {.name = "phalanx", .run = phalanx::run_call, .trains = phalanx::is_training_command}, argc,
      argv);
}
