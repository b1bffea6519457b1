#pragma once
// The logger. It writes lines to standard error, because standard output is for results. It is
// process-wide state.

#include <fmt/core.h>

#include <chrono>
#include <string_view>

namespace phalanx {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

// Afterwards no line waits for a reader of standard error, so a stopped terminal or an unread pipe
// cannot stop a run. Lines are kept up to a bound, then dropped; a line says how many.
void let_log_drop_lines();
// Whether lines wait to be written.
bool log_is_behind();
// At the end of the process: waits for a short time, while the reader reads.
void flush_log();

}  // namespace phalanx
