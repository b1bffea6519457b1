#pragma once
// For tests: counts file system calls and lets them fail or end the process. It replaces the C
// library's calls, so exactly one file of a test program includes it.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::testing_support {

// Controls the calls of the thread that constructed it, until its end.
class FailingCalls {
 public:
  enum class What {
    kCount,      // nothing fails
    kFail,       // the call number `at` (from 0) fails once
    kStayFull,   // from call `at` on every call that needs space fails
    kDie,        // the process ends instead of making the call
    kShortWrite  // every write takes one byte, and every second one is interrupted first; a read
                 // by position gives at most 1,000 bytes
  };
  explicit FailingCalls(What what, int at = 0, int error = EIO)
      : what_(what), at_(at), error_(error) {
    current() = this;
  }
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  ~FailingCalls() { current() = nullptr; }

  int count() const { return static_cast<int>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  // The paths that were synced, in order.
  const std::vector<std::string>& synced() const { return synced_; }
  // Only these calls count; an empty list means all.
  void only(std::vector<std::string> names) { only_ = std::move(names); }

  static FailingCalls*& current() {
    thread_local FailingCalls* calls = nullptr;
    return calls;
  }
  // Whether this call fails; sets errno. `needs_space`: a full disk refuses the call.
  static bool fails(std::string_view name, bool needs_space) {
    return current() != nullptr && current()->decide(name, needs_space);
  }
  bool shortens() const { return what_ == What::kShortWrite; }
  bool interrupts() { return shortens() && ++writes_ % 2 == 0; }
  void note_sync(int descriptor) {
    std::error_code ignored;
    synced_.push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored));
  }

 private:
  bool decide(std::string_view name, bool needs_space) {
    if (!only_.empty() && std::ranges::find(only_, name) == only_.end()) return false;
    const int number = count();
    names_.emplace_back(name);
    if (what_ == What::kDie && number == at_) ::_exit(42);
    const bool now = (what_ == What::kFail && number == at_) ||
                     (what_ == What::kStayFull && number >= at_ && needs_space);
    if (now) errno = what_ == What::kStayFull ? ENOSPC : error_;
    return now;
  }

  What what_;
  int at_;
  int error_;
  std::uint64_t writes_ = 0;
  std::vector<std::string> only_;
  std::vector<std::string> names_;
  std::vector<std::string> synced_;
};

}  // namespace phalanx::testing_support

extern "C" {

inline bool phalanx_call_fails(const char* name, bool needs_space) {
  return phalanx::testing_support::FailingCalls::fails(name, needs_space);
}

int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) != 0 && phalanx_call_fails("open", true)) return -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (phalanx_call_fails("write", true)) return -1;
  auto* calls = phalanx::testing_support::FailingCalls::current();
  if (calls != nullptr && calls->interrupts()) {
    errno = EINTR;
    return -1;
  }
  if (calls != nullptr && calls->shortens()) size = std::min<size_t>(size, 1);
  return ::syscall(SYS_write, descriptor, bytes, size);
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  if (phalanx_call_fails("pread", false)) return -1;
  auto* calls = phalanx::testing_support::FailingCalls::current();
  if (calls != nullptr && calls->shortens()) size = std::min<size_t>(size, 1000);
  return ::syscall(SYS_pread64, descriptor, bytes, size, offset);
}

// While a FailingCalls lives, records the path and syncs nothing: tests simulate no power loss.
int fsync(int descriptor) {
  auto* calls = phalanx::testing_support::FailingCalls::current();
  if (calls == nullptr) return static_cast<int>(::syscall(SYS_fsync, descriptor));
  if (phalanx_call_fails("fsync", true)) return -1;
  calls->note_sync(descriptor);
  return 0;
}

int rename(const char* from, const char* to) noexcept {
  if (phalanx_call_fails("rename", false)) return -1;
  return static_cast<int>(::syscall(SYS_rename, from, to));
}

int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned int flags) noexcept {
  if (phalanx_call_fails("renameat2", false)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (phalanx_call_fails("mkdir", true)) return -1;
  return static_cast<int>(::syscall(SYS_mkdir, path, mode));
}

int unlink(const char* path) noexcept {
  if (phalanx_call_fails("unlink", false)) return -1;
  return static_cast<int>(::syscall(SYS_unlink, path));
}

int unlinkat(int at, const char* path, int flags) noexcept {
  if (phalanx_call_fails("unlinkat", false)) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, at, path, flags));
}

}  // extern "C"
