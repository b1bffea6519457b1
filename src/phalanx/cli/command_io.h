#pragma once
// What a command reads, prints and is stopped by, besides files: the standard streams and the
// signals of the program (standard_io.h), or memory where another program calls a command
// (library/memory_io.h).

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

namespace phalanx {

// May ask a command to stop while the object lives.
class StopRequests {
 public:
  virtual ~StopRequests() = default;
  // The first signal that arrived, or 0.
  virtual int received() const = 0;
};

class CommandIo {
 public:
  virtual ~CommandIo() = default;

  // Waits for the input and appends what has arrived; false at its end. IoError if it cannot be
  // read.
  virtual bool read_more(std::string& text) = 0;
  // Prints a text, which may wait in a buffer. OutputError if it cannot be written.
  virtual void put(std::string_view text) = 0;
  // Writes at once what was printed so far; same error.
  virtual void flush() = 0;
  // Whether somebody types the input, and whether the output is shown there, too.
  virtual bool is_typed() const = 0;
  virtual bool is_dialogue() const = 0;
  // Listens for requests to stop while the result lives. `line`: what the first SIGINT prints; it
  // must outlive the result.
  virtual std::unique_ptr<StopRequests> listen(const char* line) = 0;
  // Whether the process is the command's own: only then it may install signal handlers, join the
  // processes of a launcher and draw a progress bar.
  virtual bool owns_process() const = 0;

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    put(fmt::format(format, std::forward<Args>(args)...));
  }
  // Prints the text at once, for readers of a pipe.
  void write(std::string_view text) {
    put(text);
    flush();
  }
};

}  // namespace phalanx
