#pragma once
// LOG_DIR/RUN/attempt_K/rank_N.{out,err}: readable by their owner alone.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/base/background_writer.h"
#include "phalanx/checkpoint/directory_lock.h"

namespace phalanx::launch {

class LogDirectory {
 public:
  // LOG_DIR/RUN, made where it is not there, and this node's until the end: another launcher that
  // was given the same run and node is told so. OutputError (73) where it cannot be made or
  // written, is a link or another user's; DirectoryInUseError (75).
  LogDirectory(const std::filesystem::path& directory, const std::string& run, int node);

  const std::filesystem::path& path() const { return path_; }
  // RUN/attempt_K, made. OutputError.
  std::filesystem::path make_attempt(int attempt) const;

 private:
  std::filesystem::path path_;
  DirectoryLock lock_;
};

// A file that output is added to, beside who adds it. What cannot be written is dropped: the run
// goes on.
class LogFile {
 public:
  LogFile() = default;
  // At most `most_bytes` wait for the disk. OutputError; also where it is a link or another user's.
  LogFile(std::filesystem::path path, BackgroundWriter& writer, std::size_t most_bytes);

  void write(std::string_view bytes) const;
  // Much waits for a disk that is slow; not where the disk takes nothing.
  bool should_wait() const;
  // Why it failed, once; else empty.
  std::string take_fault();

 private:
  std::filesystem::path path_;
  BackgroundWriter::Output output_;
  bool told_ = false;
};

// "20260102-030405-1a2b3c": when it starts, in UTC, and random digits.
std::string new_run_name();

}  // namespace phalanx::launch
