#pragma once
// Locks on bytes of an open file (F_OFD_SETLK): between processes, between descriptors of one
// process, and between hosts where the file system carries them to its server. The kernel drops
// them with the last copy of the descriptor. None of these calls waits.

#include <cstdint>

namespace phalanx {

enum class FileLock {
  kTaken,
  kHeld,         // by another descriptor
  kUnsupported,  // the file system or the kernel has no such locks
  kFailed,       // for the reason in errno
};

// Takes a write lock on one byte: the descriptor must be open for writing.
FileLock try_lock(int descriptor, std::int64_t byte);
// Whether another descriptor has a lock on it.
bool is_locked(int descriptor, std::int64_t byte);

}  // namespace phalanx
