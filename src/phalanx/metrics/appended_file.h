#pragma once
// A file to which whole records are appended: lines, or TensorBoard's frames. A record that cannot
// be written - the disk is full for a while - waits in memory and is tried again with the next one;
// no part of it stands in the file meanwhile.

#include <cstddef>
#include <deque>
#include <filesystem>
#include <string>

#include "phalanx/base/file_descriptor.h"

namespace phalanx {

class AppendedFile {
 public:
  // Bytes that wait in memory, at most; where there are more, the oldest records are lost.
  static constexpr std::size_t kMostWaiting = std::size_t{16} << 20;

  // `descriptor` appends (O_APPEND); `path` is for messages.
  AppendedFile(std::filesystem::path path, FileDescriptor descriptor);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  // Tries what waits once more. A warning says what is lost.
  ~AppendedFile();

  // Writes what waits and the record. A warning tells the first failure of several, a line tells
  // when all is written.
  void write(std::string record);

  int descriptor() const { return descriptor_.get(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  // Both: the error of the system, or 0.
  int write_waiting();
  int append(std::string& record);
  // All is written again.
  void tell_end();

  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t lost_ = 0;  // records, since all was written last
  bool is_behind_ = false;
};

}  // namespace phalanx
