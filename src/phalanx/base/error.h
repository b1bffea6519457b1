#pragma once
// User errors and failures of the environment are exceptions derived from Error. Each has a stable
// code, which becomes the exit status. Programmer errors fail a PHALANX_CHECK. A message names the
// file, field or flag, the value, and what to do.

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace phalanx {

// Exit statuses that users' scripts rely on (sysexits.h, and 85, 93, 124).
enum class ErrorCode : int {
  kUsage = 64,
  kBadData = 65,
  kInputMissing = 66,
  kUnavailable = 69,
  kInternal = 70,
  kSystem = 71,
  kCannotCreate = 73,
  kIo = 74,
  kTemporary = 75,
  kNotPermitted = 77,
  kConfiguration = 78,
  kPreempted = 85,
  kDoNotRestart = 93,
  kHang = 124,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }
  int exit_status() const { return static_cast<int>(code_); }

 private:
  ErrorCode code_;
};

// Every class fixes its code: throw DataError("{}: the header ends after {} bytes", path, n).
template <ErrorCode kCode>
class ErrorOf : public Error {
 public:
  template <typename... Args>
  explicit ErrorOf(fmt::format_string<Args...> format, Args&&... args)
      : Error(kCode, fmt::format(format, std::forward<Args>(args)...)) {}
};

using UsageError = ErrorOf<ErrorCode::kUsage>;                // the command line cannot be read
using DataError = ErrorOf<ErrorCode::kBadData>;               // an input file is malformed
using InputMissingError = ErrorOf<ErrorCode::kInputMissing>;  // an input file is not there
using UnavailableError = ErrorOf<ErrorCode::kUnavailable>;    // a service does not answer
using InternalError = ErrorOf<ErrorCode::kInternal>;          // a failed check
using SystemError = ErrorOf<ErrorCode::kSystem>;              // a system call failed (mmap, memory)
using OutputError = ErrorOf<ErrorCode::kCannotCreate>;  // an output cannot be created or written
using IoError = ErrorOf<ErrorCode::kIo>;                // reading or writing failed midway
using PermissionError = ErrorOf<ErrorCode::kNotPermitted>;  // not allowed
using ConfigError =
    ErrorOf<ErrorCode::kConfiguration>;  // settings contradict each other or a checkpoint

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);
}  // namespace detail

}  // namespace phalanx

// Programmer errors: throws InternalError with the expression, the place and the formatted values.
#define PHALANX_CHECK(condition, ...)                                                              \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      ::phalanx::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                                              \
  } while (false)
