#pragma once
// The log files LOG_DIR/RUN/attempt_K/rank_N.{out,err}, which only their owner may read.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/base/background_writer.h"
#include "phalanx/checkpoint/directory_lock.h"

namespace phalanx::launch {

class LogDirectory {
 public:
  // Makes LOG_DIR/RUN if it does not exist, and locks it for this node. OutputError (73) if it
  // cannot be made or written, is a link, or belongs to another user; DirectoryInUseError (75) if
  // another launcher has the same run and node.
  LogDirectory(const std::filesystem::path& directory, const std::string& run, int node);

  const std::filesystem::path& path() const { return path_; }
  // Makes RUN/attempt_K. OutputError.
  std::filesystem::path make_attempt(int attempt) const;

 private:
  std::filesystem::path path_;
  DirectoryLock lock_;
};

// A file to which output is appended, on another thread. What cannot be written is dropped: the run
// goes on.
class LogFile {
 public:
  LogFile() = default;
  // At most `most_bytes` wait for the disk. OutputError, also if it is a link or another user's.
  LogFile(std::filesystem::path path, BackgroundWriter& writer, std::size_t most_bytes);

  void write(std::string_view bytes) const;
  // Whether much output waits for a slow disk. False if the disk takes nothing at all.
  bool should_wait() const;
  // Why writing failed, once; else empty.
  std::string take_fault();

 private:
  std::filesystem::path path_;
  BackgroundWriter::Output output_;
  bool fault_taken_ = false;
};

// "20260102-030405-1a2b3c": the time of the start, in UTC, and random digits.
std::string new_run_name();

}  // namespace phalanx::launch
