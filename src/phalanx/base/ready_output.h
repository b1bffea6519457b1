#pragma once
// A descriptor that is written without waiting for its reader, if the system allows it. A terminal
// or pipe is opened again, because other processes share the open file and its non-blocking mode.

#include <sys/types.h>

#include <string_view>

namespace phalanx {

class ReadyOutput {
 public:
  // Opens or duplicates the descriptor; the caller may close the given one.
  explicit ReadyOutput(int descriptor);
  ReadyOutput(const ReadyOutput&) = delete;
  ReadyOutput& operator=(const ReadyOutput&) = delete;
  ~ReadyOutput();

  // False for files, whose disk may be slow, and for terminals that cannot be opened again: write()
  // may wait there.
  bool never_waits() const { return never_waits_; }
  // Returns the number of bytes written: 0 without room, -1 with errno on an error.
  ssize_t write(std::string_view bytes) const;
  // Waits until there is room, the reader is gone, or the time is over.
  void wait_for_room(int milliseconds) const;

 private:
  int descriptor_ = -1;
  bool is_socket_ = false;
  bool is_file_ = false;
  bool never_waits_ = false;
};

}  // namespace phalanx
