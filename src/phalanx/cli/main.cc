#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/error_report.h"
#include "phalanx/base/log.h"
#include "phalanx/base/mapped_file.h"
#include "phalanx/base/threads.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/signals.h"
#include "phalanx/cli/standard_output.h"
#include "phalanx/comm/comm_error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

int run_call(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", usage_text());
    return static_cast<int>(ErrorCode::kUsage);
  }
  if (words[0] == "--help" || words[0] == "-h") return run_help({});
  if (words[0] == "--version") return run_version({});
  return run_command(words);
}

int run(const std::vector<std::string>& words) {
  return with_checked_output([&words] {
    try {
      return run_call(words);
    } catch (const HelpRequested& help) {
      fmt::print("{}", help.text);
      return 0;
    }
  });
}

// What was typed up to its first flag: messages begin with it.
std::string typed_command(const std::vector<std::string>& words) {
  std::string typed = "phalanx";
  for (const std::string& word : words) {
    if (word.starts_with("-") || std::ranges::count(typed, ' ') == 2) break;
    typed += " " + word;
  }
  return typed;
}

// A line for each fault, each with the command that was typed.
void print_error(const std::vector<std::string>& words, std::string_view message) {
  const std::string typed = typed_command(words);
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    log_line(LogLevel::kError, fmt::format("{}: {}", typed, message.substr(0, end)));
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

// This process's rank, where a launcher started it.
int launched_rank() {
  for (const char* name : {"RANK", "SLURM_PROCID"}) {
    const char* const text = std::getenv(name);
    if (text != nullptr && *text != '\0') return std::atoi(text);
  }
  return -1;
}

// For people, and for the launcher. Returns the exit status.
int end_with(const std::vector<std::string>& words, const std::string& message, ErrorCode code,
             int culprit = -1) {
  print_error(words, message);
  ErrorReport report{.message = message, .code = static_cast<int>(code), .rank = launched_rank()};
  if (culprit >= 0 && culprit != report.rank) {
    report.culprit = ErrorReport::Culprit{.rank = culprit, .host = {}, .reason = message};
  }
  write_error_report(report);
  return report.code;
}

// A file or a socket must not take the number of a standard stream that is closed, and be read or
// written as that. Whoever does read or write one that was closed gets an error.
void occupy_standard_descriptors() {
  constexpr std::array kWrongWays = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = 0; descriptor < std::ssize(kWrongWays); ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    ::open("/dev/null", kWrongWays[static_cast<std::size_t>(descriptor)]);
  }
}

// The exit status.
int run_program(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const CommError& error) {
    return end_with(words, error.what(), error.code(), error.place().rank);
  } catch (const Error& error) {
    return end_with(words, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return end_with(words, "out of memory", ErrorCode::kSystem);
  } catch (const std::system_error& error) {
    // Threads are started in many places.
    const bool is_limit = error.code() == std::errc::resource_unavailable_try_again;
    return is_limit
               ? end_with(words,
                          fmt::format("the system refused a thread (ulimit -u): {}. Limits: {}",
                                      error.code().message(), thread_limits()),
                          ErrorCode::kSystem)
               : end_with(words, fmt::format("internal error: {}", error.what()),
                          ErrorCode::kInternal);
  } catch (const std::exception& error) {
    return end_with(words, fmt::format("internal error: {}", error.what()), ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  phalanx::occupy_standard_descriptors();
  // Training commands end with what they have saved, however early they are asked.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (phalanx::is_training_command(command)) phalanx::hold_stop_signals();
  // A file-size limit then arrives as a failed write, which has a message.
  std::signal(SIGXFSZ, SIG_IGN);
  phalanx::report_unreadable_maps();
  const int status = phalanx::run_program({argv + 1, argv + argc});
  phalanx::flush_log();
  return status;
}
