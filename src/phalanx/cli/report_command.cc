#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/report/report.h"
#include "phalanx/timelines/run_timeline.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStandardOutput = "-";

// Checked before anything large is read. A page of several runs must not go into the directory of
// one.
fs::path output_of(const std::string& given, const std::vector<std::string>& directories) {
  if (given.empty()) {
    if (directories.size() > 1) {
      throw UsageError("several runs: say where the page goes, -o FILE (or -o - to print it)");
    }
    return fs::path(directories.front()) / kReportName;
  }
  fs::path output(given);
  std::error_code error;
  if (fs::is_directory(output, error)) {
    throw OutputError("-o {}: this is a directory: name a file in it", given);
  }
  const fs::path folder = output.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw OutputError("-o {}: there is no directory {}", given, folder.string());
  }
  return output;
}

}  // namespace

int run_report(CommandIo& io, const Arguments& arguments) {
  std::vector<std::string> directories;
  std::string given;
  FlagSet flags("phalanx report",
                "One HTML page of a run, or of several compared, that needs no network.");
  flags.add_positional({.name = "DIR",
                        .help = "The --save directory of a run",
                        .values = &directories,
                        .least = 1,
                        .most = 1000});
  flags.add({.name = "--output",
             .help = "Where the page goes, also -o FILE; - is standard output (without: "
                     "DIR/report.html)",
             .value_name = "FILE"},
            &given);
  flags.add_example("phalanx report RUN", "RUN/report.html");
  flags.add_example("phalanx report RUN OTHER -o compared.html", "two runs over each other");
  flags.parse(with_long_names(arguments));
  const bool is_printed = given == kStandardOutput;
  const fs::path output = is_printed ? fs::path() : output_of(given, directories);
  const std::string page = report_of({directories.begin(), directories.end()},
                                     {draw_timelines, std::chrono::system_clock::now()});
  if (is_printed) {
    io.put(page);
    return 0;
  }
  write_file_durably(output, page);
  log_info("{}", output.string());
  return 0;
}

}  // namespace phalanx
