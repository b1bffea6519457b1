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
// The lock is on a file, but the writer uses a path. If the directory is moved or removed and
// another takes its place, they are not the same any more: the holder of the lock checks before it
// writes.

#include <filesystem>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {

inline constexpr std::string_view kLockName = ".lock";

using DirectoryInUseError = ErrorOf<ErrorCode::kTemporary>;
// The directory at the path is not the locked one any more.
class DirectoryLostError : public IoError {
 public:
  using IoError::IoError;
};

class DirectoryLock {
 public:
  // Makes the directory, durably, if it is not there, and locks it. `flag` named the directory, for
  // messages; `name` is the lock file's, for several locks in one directory. DirectoryInUseError
  // (75) with process, host and time of the holder; OutputError if the directory or the lock file
  // cannot be made.
  explicit DirectoryLock(const std::filesystem::path& directory, std::string_view flag = "--save",
                         std::string_view name = kLockName);
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

  // To be called before each write: DirectoryLostError (74) if the file at the path is not the
  // locked one.
  void expect_in_place() const;
  bool is_in_place() const;

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;  // path of the lock file, absolute
  std::string flag_;
  bool is_comparable_ = true;  // the file system's inode numbers do not change
};

}  // namespace phalanx
