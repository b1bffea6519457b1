#include "phalanx/cli/program.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error_report.h"
#include "phalanx/base/log.h"
#include "phalanx/base/mapped_file.h"
#include "phalanx/base/utf8.h"
#include "phalanx/cli/fault.h"
#include "phalanx/cli/signals.h"
#include "phalanx/cli/standard_io.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/launch/rank_end.h"
#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx {
namespace {

// The words of a call, and the program they are for.
struct Call {
  const CommandProgram& program;
  std::vector<std::string> words;
};

int run(const Call& call) {
  StandardIo io;
  return with_checked_output(io, [&] {
    try {
      return call.program.run(io, call.words);
    } catch (const HelpRequested& help) {
      io.put(help.text);
      return 0;
    }
  });
}

// The call up to its first flag, with which messages begin.
std::string typed_command(const Call& call) {
  std::string typed = call.program.name;
  for (int count = 0; count < std::min<int>(2, static_cast<int>(call.words.size())); ++count) {
    const std::string& word = call.words[static_cast<std::size_t>(count)];
    if (word.starts_with("-")) break;
    typed += " " + word;
  }
  return typed;
}

// A line for each fault, each with the command that was typed.
void print_error(const Call& call, std::string_view message) {
  const std::string typed = typed_command(call);
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    // Words of a call and names of files may hold any bytes.
    log_line(LogLevel::kError,
             with_foreign_bytes_named(fmt::format("{}: {}", typed, message.substr(0, end))));
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

// Reports an error to the user and to the launcher. Returns the exit status.
int end_with(const Call& call, const Fault& fault) {
  const int rank = launched_rank().value_or(-1);
  // The rank that failed, or phalanx launch, says why: the others do not repeat it.
  const bool follows =
      fault.culprit >= 0 && fault.culprit != rank && std::getenv("PHALANX_COORDINATOR") != nullptr;
  print_error(call,
              follows ? fmt::format("{}{} failed", launch::kBlame, fault.culprit) : fault.message);
  ErrorReport report{.message = fault.message, .code = static_cast<int>(fault.code), .rank = rank};
  if (fault.culprit >= 0 && fault.culprit != report.rank) {
    report.culprit =
        ErrorReport::Culprit{.rank = fault.culprit, .host = {}, .reason = fault.message};
  }
  write_error_report(report);
  return report.code;
}

// Opens closed standard streams, so that no file or socket gets their numbers and is read or
// written by mistake. Reading or writing such a stream is an error.
void occupy_standard_descriptors() {
  constexpr std::array kWrongWays = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = 0; descriptor < std::ssize(kWrongWays); ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    ::open("/dev/null", kWrongWays[static_cast<std::size_t>(descriptor)]);
  }
}

// The exit status.
int status_of(const Call& call) {
  try {
    return run(call);
  } catch (const std::exception&) {
    return end_with(call, current_fault());
  }
}

}  // namespace

int run_program(const CommandProgram& program, int argc, char** argv) {
  occupy_standard_descriptors();
  // Training commands can be asked to save and end from the very beginning.
  if (program.trains(argc > 1 ? argv[1] : "")) hold_stop_signals();
  // Then exceeding a file-size limit is a failed write, which has a message.
  std::signal(SIGXFSZ, SIG_IGN);
  report_unreadable_maps();
  const int status = status_of({program, {argv + 1, argv + argc}});
  flush_log();
  return status;
}

}  // namespace phalanx
