#pragma once
// The right to make a file: while one holds it, nobody else does (base/file_lock.h says between
// whom). It is a lock on PATH.lock, whose text names the holder; the file goes with the lock. On a
// file system where a name can be stale for a moment, two may hold it: what they make must bear
// that.

#include <filesystem>
#include <optional>
#include <string>

namespace phalanx {

class BuildLock {
 public:
  // Nothing where somebody else has it. Where the file system has no locks, everybody gets it.
  // OutputError where PATH.lock cannot be made.
  static std::optional<BuildLock> take(const std::filesystem::path& path);
  // Who has it: "process 17 on host a". For messages.
  static std::string holder(const std::filesystem::path& path);

  BuildLock(BuildLock&& other) noexcept;
  BuildLock& operator=(BuildLock&& other) noexcept;
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;
  ~BuildLock();

 private:
  BuildLock(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace phalanx
