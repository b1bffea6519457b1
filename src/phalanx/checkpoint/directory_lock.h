#pragma once
// One writer for each save directory: a lock on SAVE/.lock that is held while a run lives.
//
// It is a lock of the open file (F_OFD_SETLK): it works between processes and between two runs of
// one process, and the kernel lets go of it when its holder dies, however that happens. It works
// between hosts where the file system carries such locks to its server: NFS 4, NFS 3 with lockd,
// Lustre mounted with -o flock, CephFS, GPFS, BeeGFS with locks enabled; not NFS mounted with
// nolock or local_lock, nor Lustre with localflock, where only the runs of one host see each other.
// Where a file system has no locks at all, a warning says so and the run goes on. The file stays
// when the lock is gone: removing it would be a race.
//
// The lock is of a file, the writer goes by a path. Where the directory is moved or removed and
// another takes its place, they part: whoever holds the lock asks before it writes.

#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {

inline constexpr std::string_view kLockName = ".lock";

using DirectoryInUseError = ErrorOf<ErrorCode::kTemporary>;
// The directory under the path is not the locked one any more.
class DirectoryLostError : public IoError {
 public:
  using IoError::IoError;
};

class DirectoryLock {
 public:
  // Makes the directory, durably, where it is not there. `flag` is what named it, for messages;
  // `name` the lock file's, for who shares a directory with others of the same run.
  // DirectoryInUseError (75) with process, host and time of the holder; OutputError where the
  // directory or the lock file cannot be made.
  explicit DirectoryLock(const std::filesystem::path& directory, std::string_view flag = "--save",
                         std::string_view name = kLockName);
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

  // Before each write: DirectoryLostError (74) where the locked file is not the one at its path.
  void expect_in_place() const;
  bool is_in_place() const;

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;  // of the file, absolute
  std::string flag_;
  bool is_comparable_ = true;  // files have numbers that stay
};

}  // namespace phalanx
