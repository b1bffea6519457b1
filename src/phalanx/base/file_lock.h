#pragma once
// Locks on bytes of an open file (F_OFD_SETLK). They work between processes, between descriptors of
// one process, and between hosts if the file system supports it. The kernel releases a lock with
// the last copy of its descriptor. No call waits.

#include <cstdint>
#include <filesystem>

namespace phalanx {

enum class FileLock {
  kTaken,
  kHeld,         // another descriptor holds it
  kUnsupported,  // the file system or the kernel has no such locks
  kFailed,       // for the reason in errno
};

// Opens a lock file; creates it if missing, follows no link. OutputError.
int open_lock_file(const std::filesystem::path& path);

// Takes a write lock on one byte; the descriptor must be open for writing.
FileLock try_lock(int descriptor, std::int64_t byte);
// Whether another descriptor holds a lock on the byte.
bool is_locked(int descriptor, std::int64_t byte);

}  // namespace phalanx
