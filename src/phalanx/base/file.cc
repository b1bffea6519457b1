#include "phalanx/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file_lock.h"
#include "phalanx/base/input_descriptor.h"
#include "phalanx/base/log.h"
#include "phalanx/base/progress.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/base/working_directory.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp.";
constexpr int kAttempts = 16;  // names are random, so the first one works
// The disk may have twice as many bytes in flight. So the final sync is short for files of any
// length, and a hanging disk is noticed early.
constexpr std::int64_t kWriteBehind = std::int64_t{64} << 20;

// Takes the lock that a living writer has on its temporary file. False if another process has it.
bool hold(int descriptor) { return try_lock(descriptor, 0) != FileLock::kHeld; }

bool has_name(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

// Removes a temporary file that no writer locks. Without file locks it stays.
void remove_if_abandoned(const fs::path& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  if (try_lock(descriptor, 0) == FileLock::kTaken && ::unlink(temporary.c_str()) != 0) {
    log_warning("{}: the rest of a writer that was killed stays: {}", temporary.string(),
                std::strerror(errno));
  }
  ::close(descriptor);
}

void remove_abandoned_temporaries(const fs::path& path) {
  const std::string stem = path.filename().string().append(kTemporaryMark);
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<fs::path> temporaries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    if (is_unique_name(entry->path().filename().string(), stem) &&
        entry->symlink_status(unknown).type() == fs::file_type::regular) {
      temporaries.push_back(entry->path());
    }
  }
  for (const auto& temporary : temporaries) remove_if_abandoned(temporary);
}

// For a directory that this program did not create and that may be unreadable.
void sync_if_possible(const fs::path& directory) {
  try {
    sync_directory(directory);
  } catch (const OutputError&) {
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  FileAccess access("reading", path);
  const InputDescriptor file(path);
  std::string text(file.size(), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const auto got = ::read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw IoError("{}: cannot read beyond byte {}: {}", path.string(), done,
                    got == 0 ? "the file became shorter" : std::strerror(errno));
    }
    done += static_cast<std::size_t>(got);
    access.moved(got);
  }
  return text;
}

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)) {
  const FileAccess access("creating", path_);
  remove_abandoned_temporaries(path_);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = path_.string().append(kTemporaryMark).append(random_digits(kUniqueDigits));
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == kAttempts)) {
      throw OutputError("{}: cannot create: {}", temporary_.string(), std::strerror(errno));
    }
    // Before the lock, another writer of this path may have removed the file as abandoned.
    if (descriptor_ >= 0 && (!hold(descriptor_) || !has_name(descriptor_))) {
      ::close(std::exchange(descriptor_, -1));
      if (attempt == kAttempts) throw OutputError("{}: others remove it", temporary_.string());
    }
  }
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) {
    ::unlink(temporary_.c_str());
    ::close(descriptor_);
  }
}

void DurableFile::write(std::span<const std::byte> bytes) {
  FileAccess access("writing", temporary_);
  while (!bytes.empty()) {
    const auto most = std::min(bytes.size(), static_cast<std::size_t>(kWriteBehind));
    const auto put = ::write(descriptor_, bytes.data(), most);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      throw OutputError("{}: cannot write: {}", temporary_.string(), std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    written_ += put;
    access.moved(put);
    while (written_ - begun_ >= kWriteBehind) write_behind();
  }
}

// Starts writing the next piece to the disk and waits for the previous one.
void DurableFile::write_behind() {
  const auto move = [&](std::int64_t from, unsigned flags) {
    const bool failed = ::sync_file_range(descriptor_, from, kWriteBehind, flags) != 0;
    // Disk errors are reported only once, here. File systems without this call sync at the end.
    if (failed && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
      throw OutputError("{}: cannot write: {}", temporary_.string(), std::strerror(errno));
    }
  };
  move(begun_, SYNC_FILE_RANGE_WRITE);
  if (begun_ >= kWriteBehind) {
    move(begun_ - kWriteBehind,
         SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  begun_ += kWriteBehind;
  note_progress();
}

void DurableFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void DurableFile::commit() {
  PHALANX_CHECK(descriptor_ >= 0, "{} was committed before", path_.string());
  const FileAccess access("syncing", temporary_);
  if (::fsync(descriptor_) != 0) {
    throw OutputError("{}: cannot sync: {}", temporary_.string(), std::strerror(errno));
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw OutputError("{}: cannot put in place: {}", path_.string(), std::strerror(errno));
  }
  // Closes late, because closing releases the lock. fsync has reported all errors.
  ::close(std::exchange(descriptor_, -1));
  sync_directory(path_.parent_path());
  if (Progress* const progress = thread_progress()) progress->add_file();
}

void write_file_durably(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

void sync_directory(const std::filesystem::path& path) {
  const auto directory = path.empty() ? std::filesystem::path(".") : path;
  const FileAccess access("syncing", directory);
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw OutputError("{}: cannot open the directory: {}", directory.string(),
                      std::strerror(errno));
  }
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0 && error != EINVAL) {
    throw OutputError("{}: cannot sync the directory: {}", directory.string(),
                      std::strerror(error));
  }
}

void create_directories_durably(const fs::path& path) {
  const fs::path whole = path.has_filename() ? path : path.parent_path();
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = absolute_path(whole); !fs::exists(at, error) && at.has_relative_path();
       at = at.parent_path()) {
    missing.push_back(at);
  }
  // A killed process may have created the last directory without a sync.
  if (missing.empty()) sync_if_possible(absolute_path(whole).parent_path());
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    fs::create_directory(*at, error);
    if (error) {
      std::error_code no_link;
      const fs::path goal = fs::read_symlink(*at, no_link);
      if (no_link) throw OutputError("{}: cannot create: {}", at->string(), error.message());
      throw OutputError("{}: is a link to {}, which is not there: make that or remove the link",
                        at->string(), goal.string());
    }
    sync_directory(at->parent_path());
  }
  if (!fs::is_directory(whole, error)) {
    throw OutputError("{}: is not a directory", path.string());
  }
}

}  // namespace phalanx
