#include "phalanx/base/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace phalanx {
namespace {

struct flock write_lock_of(std::int64_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

FileLock try_lock(int descriptor, std::int64_t byte) {
  struct flock lock = write_lock_of(byte);
  if (::fcntl(descriptor, F_OFD_SETLK, &lock) == 0) return FileLock::kTaken;
  switch (errno) {
    case EAGAIN:
    case EACCES:
      return FileLock::kHeld;
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
    case EINVAL:
      return FileLock::kUnsupported;
    default:
      return FileLock::kFailed;
  }
}

bool is_locked(int descriptor, std::int64_t byte) {
  struct flock lock = write_lock_of(byte);
  return ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace phalanx
