#include "phalanx/disk/disk_access.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

int open_new(const fs::path& path, int flags, unsigned permissions) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags,
                permissions);
}

// Some file systems refuse to open a file past the page cache, some to read it.
bool reads_directly(const fs::path& path, DiskAccess& access) {
  const int descriptor = open_new(path, O_DIRECT, 0600);
  if (descriptor < 0) return false;
  alignas(kStorageAlignment) std::array<std::byte, kStorageAlignment> block;
  const bool works = ::ftruncate(descriptor, kStorageAlignment) == 0 &&
                     ::pread(descriptor, block.data(), block.size(), 0) == kStorageAlignment;
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_mem_align > 0) {
    access.memory_alignment = status.stx_dio_mem_align;
  }
  ::close(descriptor);
  return works && access.memory_alignment <= kStorageAlignment;
}

}  // namespace

std::string DiskAccess::description() const {
  return direct ? "past the page cache" : fmt::format("through the page cache ({})", reason);
}

DiskAccess access_of(const fs::path& probe, bool wants_direct) {
  DiskAccess access;
  struct statfs system {};
  const bool known = ::statfs(probe.parent_path().c_str(), &system) == 0;
  if (!wants_direct) {
    access.reason = "as was asked";
  } else if (known && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
    access.reason = "the file system is in memory";
  } else {
    access.direct = reads_directly(probe, access);
    ::unlink(probe.c_str());
    if (!access.direct) access.reason = "the file system has no O_DIRECT";
  }
  return access;
}

FileDescriptor make_file(const fs::path& path, const DiskAccess& access, unsigned permissions) {
  FileDescriptor file(open_new(path, access.direct ? O_DIRECT : 0, permissions));
  if (!file.is_open()) {
    throw OutputError("{}: cannot create: {}", path.string(), std::strerror(errno));
  }
  return file;
}

int reserve_space(const fs::path& path, int descriptor, std::int64_t bytes, bool warns) {
  if (bytes == 0) return 0;
  int error = 0;
  do {
    error = ::fallocate(descriptor, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != EOPNOTSUPP && error != ENOSYS) return error;
  error = ::ftruncate(descriptor, bytes) == 0 ? 0 : errno;
  if (error == 0 && warns) {
    log_warning("{}: the file system reserves no space: others may take what this file needs",
                path.string());
  }
  return error;
}

std::byte* aligned(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (round_up(static_cast<std::int64_t>(address), kStorageAlignment) -
                   static_cast<std::int64_t>(address));
}

}  // namespace phalanx
