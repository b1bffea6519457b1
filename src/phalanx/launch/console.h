#pragma once
// The launcher's standard output and error, written by a thread of their own: a terminal that is
// held (Ctrl-S) or a pipe that nobody empties must not keep the launcher from watching. What
// nobody reads any more is dropped.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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
  // Whether so much is waiting that nothing should be added that can wait.
  bool is_full() const;
  // False where it was not all written within that time.
  bool flush(std::chrono::milliseconds limit);

 private:
  class Writer;
  std::shared_ptr<Writer> writer_;  // the thread's, too
  bool error_at_line_start_ = true;
};

}  // namespace phalanx::launch
