#pragma once
// A directory that appears under its name only when it is complete: its files are written beside
// it, in NAME.partial, and one rename makes it NAME.

#include <filesystem>
#include <optional>
#include <string_view>

#include "phalanx/checkpoint/directory_lock.h"

namespace phalanx {

class StagedDirectory {
 public:
  // OutputError where something is there that is no empty directory; DirectoryInUseError where
  // another process is writing it. What a process that was killed has left of it is removed. `flag`
  // named the directory, for messages.
  StagedDirectory(const std::filesystem::path& directory, std::string_view flag);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  // Removes what is there, unless it was committed.
  ~StagedDirectory();

  // Where files go meanwhile.
  const std::filesystem::path& path() const { return staging_; }
  // The files are on disk: OutputError where the directory cannot be renamed.
  void commit();

 private:
  std::filesystem::path directory_;
  std::filesystem::path staging_;
  std::string_view flag_;
  std::optional<DirectoryLock> lock_;
  bool committed_ = false;
};

}  // namespace phalanx
