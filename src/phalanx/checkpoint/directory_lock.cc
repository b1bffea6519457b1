#include "phalanx/checkpoint/directory_lock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/file_lock.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Bytes of the file that are locked (they may lie beyond its end). The first: the directory is in
// use. The second: the text is that of the present holder; before it is locked, the text may be of
// an earlier run.
constexpr std::int64_t kInUse = 0;
constexpr std::int64_t kTextIsTrue = 1;

constexpr std::size_t kLongestText = 4096;
constexpr int kAttempts = 100;
constexpr std::chrono::milliseconds kPause{10};

std::string holder_text() {
  return fmt::format("{{\"host\": {}, \"pid\": {}, \"started\": \"{:%Y-%m-%dT%H:%M:%SZ}\"}}\n",
                     json_string(host_name()), ::getpid(), fmt::gmtime(std::time(nullptr)));
}

// The text is only for messages, so a full disk does not stop the run.
bool write_holder(int descriptor) {
  const std::string text = holder_text();
  return ::ftruncate(descriptor, 0) == 0 &&
         ::pwrite(descriptor, text.data(), text.size(), 0) == std::ssize(text);
}

std::string holder_of(int descriptor) {
  std::string text(kLongestText, '\0');
  const auto got = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  try {
    const nlohmann::json json = parse_strict_json(text, kLockName);
    JsonObject object(json, std::string(kLockName));
    // Escaped as in JSON, so that a terminal does not obey control characters in it.
    const auto plain = [&](const char* key) {
      const std::string quoted = json_string(object.text(key, kLongestText));
      return quoted.substr(1, quoted.size() - 2);
    };
    return fmt::format("process {} on host {} since {}",
                       object.integer("pid", 1, std::numeric_limits<std::int32_t>::max()),
                       plain("host"), plain("started"));
  } catch (const DataError&) {
    return "a process that does not say which";
  }
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& directory, std::string_view flag,
                             std::string_view name)
    : path_(absolute_path(directory) / name), flag_(flag) {
  create_directories_durably(directory);
  const fs::path path = directory / name;
  descriptor_ = open_lock_file(path);
  FileLock lock = try_lock(descriptor_, kInUse);
  for (int attempt = 0; lock == FileLock::kHeld; ++attempt) {
    const bool known = is_locked(descriptor_, kTextIsTrue);
    if (known || attempt == kAttempts) {
      const std::string holder = known ? holder_of(descriptor_) : "a process that just began";
      ::close(std::exchange(descriptor_, -1));
      throw DirectoryInUseError(
          "{} {} is in use by {}: wait until that ends, or name another directory", flag,
          directory.string(), holder);
    }
    std::this_thread::sleep_for(kPause);
    lock = try_lock(descriptor_, kInUse);
  }
  if (lock == FileLock::kFailed) {
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    throw OutputError("{}: cannot lock: {}", path.string(), std::strerror(error));
  }
  if (!is_in_place()) {
    is_comparable_ = false;
    log_warning(
        "{}: the file system gives a file another number with each look: nobody notices "
        "when the directory is moved away under the run",
        directory.string());
  }
  if (lock == FileLock::kUnsupported) {
    log_warning("{}: the file system has no locks: nothing keeps another run with the same {} out",
                directory.string(), flag);
    return;
  }
  if (write_holder(descriptor_)) try_lock(descriptor_, kTextIsTrue);
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      flag_(std::move(other.flag_)),
      is_comparable_(other.is_comparable_) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(flag_, other.flag_);
  std::swap(is_comparable_, other.is_comparable_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool DirectoryLock::is_in_place() const {
  struct stat held {};
  struct stat found {};
  if (!is_comparable_ || descriptor_ < 0 || ::fstat(descriptor_, &held) != 0) return true;
  if (::lstat(path_.c_str(), &found) == 0) {
    return held.st_dev == found.st_dev && held.st_ino == found.st_ino;
  }
  // Other errors do not show that the directory is lost.
  return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
}

void DirectoryLock::expect_in_place() const {
  if (is_in_place()) return;
  throw DirectoryLostError(
      "{} {}: its {} is gone or another than the one that this run holds: the directory was moved, "
      "removed or replaced, and nothing more is written there",
      flag_, path_.parent_path().string(), path_.filename().string());
}

}  // namespace phalanx
