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

#include <filesystem>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {

inline constexpr std::string_view kLockName = ".lock";

using DirectoryInUseError = ErrorOf<ErrorCode::kTemporary>;

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

 private:
  int descriptor_ = -1;
};

}  // namespace phalanx
