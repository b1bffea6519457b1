#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/error_report.h"
#include "phalanx/base/log.h"
#include "phalanx/base/mapped_file.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/signals.h"
#include "phalanx/comm/comm_error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", usage_text());
    return static_cast<int>(ErrorCode::kUsage);
  }
  if (words[0] == "--help" || words[0] == "-h") return run_help({});
  if (words[0] == "--version") return run_version({});
  return run_command(words);
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

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  // Training commands end with what they have saved, however early they are asked.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "pretrain" || command == "finetune") phalanx::hold_stop_signals();
  // A file-size limit then arrives as a failed write, which has a message.
  std::signal(SIGXFSZ, SIG_IGN);
  phalanx::report_unreadable_maps();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return phalanx::run(words);
  } catch (const phalanx::HelpRequested& help) {
    fmt::print("{}", help.text);
    return 0;
  } catch (const phalanx::CommError& error) {
    return phalanx::end_with(words, error.what(), error.code(), error.place().rank);
  } catch (const phalanx::Error& error) {
    return phalanx::end_with(words, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return phalanx::end_with(words, "out of memory", phalanx::ErrorCode::kSystem);
  } catch (const std::exception& error) {
    return phalanx::end_with(words, fmt::format("internal error: {}", error.what()),
                             phalanx::ErrorCode::kInternal);
  }
}
