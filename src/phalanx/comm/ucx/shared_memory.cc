#include "phalanx/comm/ucx/shared_memory.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace phalanx::ucx {

std::string shared_memory_fault(const std::filesystem::path& folder, int ranks) {
  const char* const otherwise = "or train with the threads of one process (--nproc)";
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) {
    return fmt::format(
        "{}, where ranks of one host share memory, is not there: {}; mount a tmpfs there, {}",
        folder.string(), std::strerror(errno), otherwise);
  }
  if ((status.f_flag & ST_RDONLY) != 0) {
    return fmt::format(
        "{}, where ranks of one host share memory, is read-only: mount it writable, {}",
        folder.string(), otherwise);
  }
  const auto kib = [&](std::uint64_t blocks) { return blocks * status.f_frsize / 1024; };
  const auto needed = static_cast<std::uint64_t>(ranks) * kSharedKibOfRank;
  if (kib(status.f_bavail) >= needed) return "";
  return fmt::format(
      "{}, where ranks of one host share memory, is too small: {} ranks take {} KiB of it, it has "
      "{} KiB, of which {} are free: make it larger (mount -o remount,size={}k {}; docker run "
      "--shm-size), {}",
      folder.string(), ranks, needed, kib(status.f_blocks), kib(status.f_bavail), 2 * needed,
      folder.string(), otherwise);
}

}  // namespace phalanx::ucx
