#pragma once
// LOG_DIR/RUN/attempt_K/rank_N.{out,err}: readable by their owner alone.

#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/launch/descriptor.h"

namespace phalanx::launch {

class LogDirectory {
 public:
  // LOG_DIR/RUN, made where it is not there. OutputError (73) where it cannot be made or written,
  // is a link or another user's.
  LogDirectory(const std::filesystem::path& directory, const std::string& run);

  const std::filesystem::path& path() const { return path_; }
  // RUN/attempt_K, made. OutputError.
  std::filesystem::path make_attempt(int attempt) const;

 private:
  std::filesystem::path path_;
};

// A file that output is added to. What cannot be written is dropped: the run goes on.
class LogFile {
 public:
  LogFile() = default;
  // OutputError; also where it is a link or another user's.
  explicit LogFile(std::filesystem::path path);

  // Why it failed, the first time; else empty.
  std::string write(std::string_view bytes);

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// "20260102-030405-1a2b3c": when it starts, in UTC, and random digits.
std::string new_run_name();

}  // namespace phalanx::launch
