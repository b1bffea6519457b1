#pragma once
// The standard streams and the signals of this process, for a command of the program: all results
// arrive, or the command fails.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/cli/command_io.h"

namespace phalanx {

class StandardIo final : public CommandIo {
 public:
  bool read_more(std::string& text) override;
  void put(std::string_view text) override;
  void flush() override;
  bool is_typed() const override;
  bool is_dialogue() const override;
  std::unique_ptr<StopRequests> listen(const char* line) override;
  bool owns_process() const override { return true; }
};

// Runs a command, and writes what it left in the buffer. Returns its status; OutputError if
// anything could not be written. If the reader of a pipe has gone, that is not an error: the status
// is that of a process that SIGPIPE ended, for callers that ignore the signal.
int with_checked_output(StandardIo& io, const std::function<int()>& command);

}  // namespace phalanx
