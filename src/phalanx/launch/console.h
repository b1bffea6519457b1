#pragma once
// The launcher's standard output and error. It never waits for a terminal that is held (Ctrl-S) or
// a pipe that nobody reads. What standard error cannot take is dropped, and the amount reported.
// Standard output has results: nothing is dropped, but the producer is told to wait.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/base/background_writer.h"

namespace phalanx::launch {

enum class ConsoleStream : std::uint8_t { kOutput, kError };

class Console {
 public:
  Console(int output, int error);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  // Waits for the rest to be taken, up to a limit.
  ~Console();

  // Writes bytes as they come; they may end within a line.
  void write(ConsoleStream stream, std::string_view bytes);
  // Writes a line of the launcher's own to standard error, at the beginning of a line.
  void line(std::string_view text);
  // Whether output that can wait should not be added now. Of standard error: while it is slow, but
  // not if it takes nothing.
  bool should_wait(ConsoleStream stream) const;

  // The state of what was written to standard output.
  enum class Results : std::uint8_t { kTaken, kWaiting, kNobodyTakesThem };
  // Waits until all of it is taken, up to `limit`.
  Results wait_for_results(std::chrono::milliseconds limit) const;

 private:
  BackgroundWriter output_writer_;
  BackgroundWriter error_writer_;
  BackgroundWriter::Output output_;
  BackgroundWriter::Output error_;
  bool error_at_line_start_ = true;
  bool has_results_ = false;
};

}  // namespace phalanx::launch
