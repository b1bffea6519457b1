#pragma once
// The file from which a launcher reads the error that ended a process. torchrun names it in
// TORCHELASTIC_ERROR_FILE and prints its message with the rank's exit status.

#include <chrono>
#include <optional>
#include <string>

namespace phalanx {

struct ErrorReport {
  struct Culprit {
    int rank = -1;
    std::string host{};
    std::string reason{};
  };
  std::string message;
  int code = 0;                      // the exit status
  int rank = -1;                     // the reporting rank; -1: unknown
  std::optional<Culprit> culprit{};  // the first failure of the run, if on another rank
};

// {"message": {"message": "...", "extraInfo": {"timestamp": "1700000000"}}, "code": 75, "rank": 2,
// "culprit": {"rank": 3, "host": "n07", "reason": "..."}}, always valid UTF-8; texts are cut after
// 16 KiB.
std::string error_report_json(const ErrorReport& report, std::chrono::system_clock::time_point now);

// Replaces the file that TORCHELASTIC_ERROR_FILE names. False if there is none or it cannot be
// written; that is no error, because the original error is also reported elsewhere.
bool write_error_report(const ErrorReport& report) noexcept;

}  // namespace phalanx
