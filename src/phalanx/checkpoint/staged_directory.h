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
  // OutputError if something other than an empty directory is there; DirectoryInUseError if another
  // process is writing it. The remains of a killed process are removed. `flag` named the directory,
  // for messages.
  StagedDirectory(const std::filesystem::path& directory, std::string_view flag);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  // Removes the files, unless they were committed.
  ~StagedDirectory();

  // The directory where the files are written.
  const std::filesystem::path& path() const { return staging_; }
  // To be called when the files are on disk. OutputError if the directory cannot be renamed.
  void commit();

 private:
  std::filesystem::path directory_;
  std::filesystem::path staging_;
  std::string_view flag_;
  std::optional<DirectoryLock> lock_;
  bool committed_ = false;
};

}  // namespace phalanx
