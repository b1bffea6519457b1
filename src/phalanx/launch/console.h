#pragma once
// The launcher's standard output and error. Nothing here waits for a terminal that is held (Ctrl-S)
// or a pipe that nobody empties: what standard error cannot take is dropped with a word of how much
// was, and standard output, which has results, says when its producer has to wait.

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
  // Waits a while for what is left.
  ~Console();

  // Bytes as they come, which may end within a line.
  void write(ConsoleStream stream, std::string_view bytes);
  // A line of the launcher's own, on standard error; it begins a new line there.
  void line(std::string_view text);
  // Whether nothing should be added now that can wait: on standard error while it is slow, not
  // where it takes nothing.
  bool should_wait(ConsoleStream stream) const;

  // Of what was written to standard output.
  enum class Results : std::uint8_t { kTaken, kWaiting, kNobodyTakesThem };
  // Waits for them, up to that long.
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
