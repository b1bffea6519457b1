#pragma once
// The file in which a launcher looks for the error that ended a process: torchrun names it in
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
  int rank = -1;                     // whose report it is; -1: not known
  std::optional<Culprit> culprit{};  // the first failure of the run, where it is another rank's
};

// {"message": {"message": "...", "extraInfo": {"timestamp": "1700000000"}}, "code": 75, "rank": 2,
// "culprit": {"rank": 3, "host": "n07", "reason": "..."}}, UTF-8 whatever the texts hold; texts
// are cut after 16 KiB.
std::string error_report_json(const ErrorReport& report, std::chrono::system_clock::time_point now);

// Replaces the file that TORCHELASTIC_ERROR_FILE names. False where none is named or it cannot be
// written: the error itself is what counts, and is said elsewhere too.
bool write_error_report(const ErrorReport& report) noexcept;

}  // namespace phalanx
