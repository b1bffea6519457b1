#include "phalanx/cli/command_table.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

int run_help(CommandIo& io, const Arguments& arguments) {
  if (!arguments.empty() && !arguments[0].starts_with("-")) {
    Arguments asks = arguments;
    asks.emplace_back("--help");
    return run_command(io, asks);
  }
  bool markdown = false;
  FlagSet flags("phalanx help",
                "The commands there are; phalanx help COMMAND lists the flags of one.");
  flags.add({.name = "--markdown", .help = "All flags of all commands, as the page docs/flags.md"},
            &markdown);
  flags.parse(arguments);
  io.put(markdown ? flags_page(all_command_flags(io)) : usage_text());
  return 0;
}

}  // namespace phalanx
