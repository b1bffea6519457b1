#include "phalanx/data/build_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file_lock.h"
#include "phalanx/base/machine.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestText = 256;
constexpr int kAttempts = 100;  // others may remove the file between two of our calls

fs::path lock_path(const fs::path& path) { return path.string() + ".lock"; }

// Whether the path still leads to this file: its previous holder may have removed it.
bool is_in_place(const fs::path& path, int descriptor) {
  struct stat named {};
  struct stat held {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &held) == 0 &&
         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

// Only for messages, so a full disk does not matter.
void write_holder(int descriptor) {
  const std::string text = fmt::format("process {} on host {}", ::getpid(), host_name());
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const auto put = ::pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

std::optional<BuildLock> BuildLock::take(const fs::path& path) {
  const fs::path file = lock_path(path);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    BuildLock lock(file, open_lock_file(file));
    const FileLock state = try_lock(lock.descriptor_, 0);
    if (state == FileLock::kHeld) {
      // The file belongs to the holder of the lock.
      ::close(std::exchange(lock.descriptor_, -1));
      return std::nullopt;
    }
    if (is_in_place(file, lock.descriptor_)) {
      write_holder(lock.descriptor_);
      return lock;
    }
    ::close(std::exchange(lock.descriptor_, -1));
  }
  throw OutputError("{}: others remove it again and again", file.string());
}

std::string BuildLock::holder(const fs::path& path) {
  const int descriptor =
      ::open(lock_path(path).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  std::string text(kLongestText, '\0');
  const auto got = descriptor < 0 ? 0 : ::pread(descriptor, text.data(), text.size(), 0);
  if (descriptor >= 0) ::close(descriptor);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  // So that a terminal does not obey control characters in it.
  const bool is_plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  return text.empty() || !is_plain ? "another process" : text;
}

BuildLock::BuildLock(fs::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

BuildLock::BuildLock(BuildLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

BuildLock& BuildLock::operator=(BuildLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

BuildLock::~BuildLock() {
  if (descriptor_ < 0) return;
  // While the lock is held, no other process's file can have this name.
  if (is_in_place(path_, descriptor_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace phalanx
