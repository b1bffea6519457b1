#include "phalanx/offload/storage_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file_lock.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/working_directory.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

using StorageInUseError = ErrorOf<ErrorCode::kTemporary>;

constexpr std::string_view kGuardName = ".phalanx-storage";
constexpr std::string_view kRunStem = "phalanx-";
constexpr std::string_view kRankStem = "rank-";
constexpr std::string_view kRankLockName = ".lock";
constexpr std::string_view kStateSuffix = ".state";

// Removing a large file takes seconds.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kPause{5};

void try_to_write(int descriptor, std::string_view text) {
  [[maybe_unused]] const auto put = ::write(descriptor, text.data(), text.size());
}

// The folders in a folder whose names begin with a prefix.
std::vector<fs::path> folders_in(const fs::path& folder, std::string_view stem) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    if (entry->path().filename().string().starts_with(stem) &&
        entry->symlink_status(unknown).type() == fs::file_type::directory) {
      found.push_back(entry->path());
    }
  }
  std::ranges::sort(found);
  return found;
}

bool has_ranks(const fs::path& directory) {
  return std::ranges::any_of(folders_in(directory, kRunStem), [](const fs::path& run) {
    return !folders_in(run, kRankStem).empty();
  });
}

// Whether an open file is still at its path: neither removed nor replaced.
bool is_at(int descriptor, const fs::path& path) {
  struct stat held {};
  struct stat there {};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

// A lock for making and removing folders in a directory, for one process and thread at a time: the
// lock of a file in it, which is removed with the last folder. The file has a text if Phalanx made
// the directory.
class Guard {
 public:
  // `poll` is called while another process has the lock, and may throw.
  Guard(const fs::path& directory, std::string_view flag, const std::function<void()>& poll)
      : directory_(directory), path_(directory / kGuardName), flag_(flag) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!take()) {
      if (poll) poll();
      if (std::chrono::steady_clock::now() > deadline) {
        throw StorageInUseError("{} {}: another process has held {} for {} s: is it stopped?", flag,
                                directory.string(), path_.string(), kPatience.count());
      }
      std::this_thread::sleep_for(kPause);
    }
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { ::close(descriptor_); }

  // Removes the guard's file after the last folder, and the directory if Phalanx has made it and
  // it is empty. False if another process has come to the directory meanwhile.
  bool leave_as_found() {
    if (has_ranks(directory_)) return true;
    struct stat status {};
    const bool made = ::fstat(descriptor_, &status) == 0 && status.st_size > 0;
    // A process that is killed in between leaves its run's folder without a rank's folder.
    if (made) remove_empty_runs();
    ::unlink(path_.c_str());
    if (!made) return true;
    return ::rmdir(directory_.c_str()) == 0 || errno != ENOTEMPTY || has_what_is_not_ours();
  }
  // Records that Phalanx has made the directory.
  void remember_made() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && status.st_size == 0) {
      try_to_write(descriptor_, "This directory was made by phalanx, which removes it.\n");
    }
  }

 private:
  // False: not yet.
  bool take() {
    // The process that made the directory may get the guard after others.
    if (::mkdir(directory_.c_str(), 0777) == 0) {
      made_ = true;
    } else if (errno != EEXIST) {
      refuse(errno);
    }
    // Every user may lock it: folders of other users may be beside ours.
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENOENT) create();
    if (descriptor_ < 0) {
      if (errno != EEXIST && errno != ENOENT) refuse(errno);
      // The directory has just been removed, or the file been made; or the directory is a broken
      // link.
      struct stat status {};
      const bool is_link = ::stat(directory_.c_str(), &status) != 0 &&
                           ::lstat(directory_.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
      if (is_link) refuse(ENOTDIR);
      return false;
    }
    const FileLock lock = try_lock(descriptor_, 0);
    // If it is no longer at its path, its last user has removed it.
    if (lock == FileLock::kTaken && is_at(descriptor_, path_)) {
      if (made_) remember_made();
      return true;
    }
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    if (lock == FileLock::kUnsupported || lock == FileLock::kFailed) refuse(error);
    return false;
  }

  // The guard's file; or errno.
  void create() {
    const int directory = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    descriptor_ = ::openat(directory, kGuardName.data(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    const int error = errno;
    // No file can be made in a directory that was removed, or in some that exist (/proc).
    const bool is_removed = error == ENOENT && !is_at(directory, directory_);
    ::close(directory);
    if (descriptor_ >= 0) {
      ::fchmod(descriptor_, 0666);
    } else if (error == ENOENT && !is_removed) {
      refuse_files();
    }
    errno = error;
  }

  void remove_empty_runs() const {
    for (const fs::path& run : folders_in(directory_, kRunStem)) ::rmdir(run.c_str());
  }
  bool has_what_is_not_ours() const {
    const std::vector<fs::path> runs = folders_in(directory_, kRunStem);
    std::error_code error;
    for (fs::directory_iterator entry(directory_, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().filename() == kGuardName) continue;
      const bool is_run = std::ranges::find(runs, entry->path()) != runs.end();
      std::error_code gone;
      const bool is_ours = is_run && (fs::is_empty(entry->path(), gone) ||
                                      !folders_in(entry->path(), kRankStem).empty());
      if (!is_ours && !gone) return true;
    }
    return false;
  }

  [[noreturn]] void refuse_files() const {
    throw OutputError("{} {}: no file can be made there: name a directory on a disk", flag_,
                      directory_.string());
  }

  [[noreturn]] void refuse(int error) const {
    const std::string directory = directory_.string();
    switch (error) {
      case ENOENT:
        if (path_exists(directory_.parent_path())) refuse_files();
        throw OutputError("{} {}: the directory above it is not there: make that first", flag_,
                          directory);
      case ENOTDIR:
        throw OutputError("{} {}: is not a directory", flag_, directory);
      case ENOLCK:
      case ENOSYS:
      case EINVAL:
      case EOPNOTSUPP:
        throw OutputError("{} {}: the file system has no locks: name a directory on a local disk",
                          flag_, directory);
      default:
        throw OutputError("{} {}: cannot be written: {}", flag_, directory, std::strerror(error));
    }
  }

  fs::path directory_;
  fs::path path_;
  std::string_view flag_;
  int descriptor_ = -1;
  bool made_ = false;
};

// Removes a rank's folder, and its run's folder if that is then empty; returns the bytes freed. The
// caller has the guard. The lock is removed last, so a folder without one is empty.
std::int64_t remove_rank(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == kStateSuffix) files.push_back(entry->path());
  }
  files.push_back(folder / kRankLockName);
  std::int64_t freed = 0;
  for (const fs::path& file : files) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) == 0 && ::unlink(file.c_str()) == 0) {
      freed += status.st_blocks * 512;
    }
  }
  // Another process may have removed it before.
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) {
    log_warning("{}: cannot be removed: {}", folder.string(), std::strerror(errno));
  }
  ::rmdir(folder.parent_path().c_str());
  return freed;
}

// Whether the rank that made the folder is gone. The caller has the guard, so no rank is making
// one.
bool is_abandoned(const fs::path& folder) {
  const int lock =
      ::open((folder / kRankLockName).c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (lock < 0) return errno == ENOENT;
  const bool abandoned = try_lock(lock, 0) == FileLock::kTaken;
  ::close(lock);
  return abandoned;
}

void remove_abandoned(const fs::path& directory, std::string_view flag) {
  std::vector<std::string> runs;
  std::int64_t freed = 0;
  for (const fs::path& run : folders_in(directory, kRunStem)) {
    bool has_abandoned = false;
    for (const fs::path& rank : folders_in(run, kRankStem)) {
      if (!is_abandoned(rank)) continue;
      freed += remove_rank(rank);
      has_abandoned = true;
    }
    if (has_abandoned) runs.push_back(run.filename().string());
  }
  if (runs.empty()) return;
  log_info("{} {}: removed what runs that were killed have left: {} ({})", flag, directory.string(),
           fmt::join(runs, ", "), format_bytes(freed));
}

}  // namespace

StorageFolder::StorageFolder(const fs::path& directory, const std::string& run, int rank,
                             std::string flag, const std::function<void()>& poll)
    : directory_(absolute_path(directory)),
      path_(directory_ / fmt::format("{}{}", kRunStem, run) /
            fmt::format("{}{:04}", kRankStem, rank)),
      flag_(std::move(flag)) {
  const int error = claim(poll);
  if (error == 0) return;
  leave();
  if (error == EEXIST) {
    throw StorageInUseError("{} {}: {} is in use: another process has rank {} of this run", flag_,
                            directory_.string(), path_.string(), rank);
  }
  throw OutputError("{} {}: cannot be written: {}", flag_, directory_.string(),
                    std::strerror(error));
}

// 0, or errno; EEXIST if the rank's folder exists.
int StorageFolder::claim(const std::function<void()>& poll) {
  const Guard guard(directory_, flag_, poll);
  remove_abandoned(directory_, flag_);
  const fs::path run = path_.parent_path();
  is_first_ = ::mkdir(run.c_str(), 0777) == 0;
  if (!is_first_ && errno != EEXIST) return errno;
  int error = ::mkdir(path_.c_str(), 0700) == 0 ? 0 : errno;
  if (error == 0) {
    const fs::path lock = path_ / kRankLockName;
    lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (lock_ >= 0 && try_lock(lock_, 0) == FileLock::kTaken) return 0;
    error = errno;
    remove_rank(path_);
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
  }
  if (is_first_) ::rmdir(run.c_str());
  return error;
}

StorageFolder::~StorageFolder() { leave(); }

void StorageFolder::leave() noexcept {
  try {
    bool knows_made = false;
    for (bool done = false; !done; knows_made = true) {
      Guard guard(directory_, flag_, nullptr);
      if (knows_made) guard.remember_made();
      if (lock_ >= 0) {
        remove_rank(path_);
        ::close(std::exchange(lock_, -1));
      }
      done = guard.leave_as_found();
    }
  } catch (const Error& error) {
    if (lock_ >= 0) ::close(lock_);
    log_warning("{}: stays: {}", path_.string(), error.what());
  }
}

std::int64_t StorageFolder::free_bytes() const {
  struct statvfs status {};
  if (::statvfs(path_.c_str(), &status) != 0) {
    throw IoError("{}: cannot be asked for its free space: {}", path_.string(),
                  std::strerror(errno));
  }
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

void StorageFolder::expect_space(std::int64_t bytes) const {
  const std::int64_t free = free_bytes();
  if (bytes <= free) return;
  throw OutputError(
      "{} {}: {} are needed and {} are free ({} and {} bytes): make room or name a directory on "
      "another disk",
      flag_, directory_.string(), format_bytes(bytes), format_bytes(free), bytes, free);
}

}  // namespace phalanx
