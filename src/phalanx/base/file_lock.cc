#include "phalanx/base/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "phalanx/base/error.h"

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

int open_lock_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    throw OutputError("{}: cannot open the lock file: {}", path.string(),
                      errno == ELOOP ? "it is a link; remove it" : std::strerror(errno));
  }
  return descriptor;
}

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
