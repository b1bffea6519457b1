#pragma once
// A descriptor that is written without waiting for who reads it, where the system allows that: a
// terminal or a pipe is opened a second time, for waiting or not is a property of the open file,
// which other processes share.

#include <sys/types.h>

#include <string_view>

namespace phalanx {

class ReadyOutput {
 public:
  // Keeps a descriptor of its own: the given one may be closed.
  explicit ReadyOutput(int descriptor);
  ReadyOutput(const ReadyOutput&) = delete;
  ReadyOutput& operator=(const ReadyOutput&) = delete;
  ~ReadyOutput();

  // False for files, whose disk may be slow, and for terminals that cannot be opened again: write()
  // may then wait.
  bool never_waits() const { return never_waits_; }
  // How many bytes were taken: 0 where there is no room now; -1 with errno where it takes none any
  // more.
  ssize_t write(std::string_view bytes) const;
  // Until there is room, or nobody is left to read, or the time is over.
  void wait_for_room(int milliseconds) const;

 private:
  int descriptor_ = -1;
  bool is_socket_ = false;
  bool is_file_ = false;
  bool never_waits_ = false;
};

}  // namespace phalanx
