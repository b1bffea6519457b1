#pragma once
// The logger: lines to standard error, for standard output belongs to results. The only
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

// From now on no line waits for who reads standard error: a run must not stand still because a
// terminal is held or a pipe is not read. Lines are kept, up to a bound, and then dropped with a
// word of how many.
void let_log_drop_lines();
// Whether lines wait to be written.
bool log_is_behind();
// Waits for them at the end of the process, for as long as somebody reads, and not for long.
void flush_log();

}  // namespace phalanx
