#include <fmt/core.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/man_pages.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

void write_man_pages(CommandIo& io, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw OutputError("--man-pages {}: {}", directory, error.message());
  for (const NamedPage& page : all_man_pages(io)) {
    const auto path = std::filesystem::path(directory) / (page.name + ".1");
    std::ofstream file(path, std::ios::binary);
    file << page.text;
    file.close();
    if (!file) throw OutputError("{}: cannot be written", path.string());
  }
}

}  // namespace

int run_help(CommandIo& io, const Arguments& arguments) {
  if (!arguments.empty() && !arguments[0].starts_with("-")) {
    Arguments asks = arguments;
    asks.emplace_back("--help");
    return run_command(io, asks);
  }
  bool markdown = false;
  std::vector<std::string> man;
  std::string man_pages;
  FlagSet flags("phalanx help",
                "The commands there are; phalanx help COMMAND lists the flags of one.");
  flags.add({.name = "--markdown",
             .help = "All flags of all commands, as the page docs/flags.md",
             .excludes = "--man --man-pages"},
            &markdown);
  flags.add({.name = "--man",
             .help = "The page of the manual about a command, or about phalanx, as roff",
             .value_name = "COMMAND",
             .excludes = "--man-pages"},
            &man);
  flags.add({.name = "--man-pages",
             .help = "Writes every page of the manual into a directory: phalanx.1, ...",
             .value_name = "DIR"},
            &man_pages);
  flags.parse(arguments);
  if (!man_pages.empty()) {
    write_man_pages(io, man_pages);
  } else if (!man.empty()) {
    io.put(man_page_of(io, fmt::format("{}", fmt::join(man, " "))));
  } else {
    io.put(markdown ? flags_page(all_command_flags(io)) : usage_text());
  }
  return 0;
}

}  // namespace phalanx
