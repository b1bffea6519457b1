#include "phalanx/launch/log_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/unique_name.h"

namespace phalanx::launch {
namespace {

constexpr mode_t kOwnDirectory = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr int kNameDigits = 6;

// This user's, or root's, who is trusted.
void check_owner(const struct stat& status, const std::filesystem::path& path) {
  if (status.st_uid == ::geteuid() || status.st_uid == 0) return;
  throw OutputError("{}: belongs to user {}, and this is user {}'s run; give another --log-dir",
                    path.string(), status.st_uid, ::geteuid());
}

// Or one of this user's that is there already; not what a link points to.
void make_own_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), kOwnDirectory) == 0) return;
  const int error = errno;
  struct stat status {};
  if (error != EEXIST || ::lstat(path.c_str(), &status) != 0) {
    throw OutputError("{}: cannot make the directory: {}; give another --log-dir", path.string(),
                      std::strerror(error));
  }
  if (!S_ISDIR(status.st_mode)) {
    throw OutputError("{}: is {}, not a directory; give another --log-dir", path.string(),
                      S_ISLNK(status.st_mode) ? "a link" : "something else");
  }
  check_owner(status, path);
}

// Not through a link: whoever may write in the directory would choose the file that is written.
// O_NONBLOCK: a pipe in its place is refused, not waited for.
Descriptor open_own_file(const std::filesystem::path& path) {
  constexpr int kFlags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  Descriptor file(::open(path.c_str(), kFlags, kOwnFile));
  if (!file.is_open()) {
    throw OutputError("{}: cannot be written: {}; give another --log-dir", path.string(),
                      errno == ELOOP ? "it is a link" : std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw OutputError("{}: is not a regular file; give another --log-dir", path.string());
  }
  check_owner(status, path);
  return file;
}

}  // namespace

LogDirectory::LogDirectory(const std::filesystem::path& directory, const std::string& run)
    : path_(directory / run) {
  create_directories_durably(directory);
  make_own_directory(path_);
  if (::access(path_.c_str(), W_OK | X_OK) != 0) {
    throw OutputError("{}: cannot be written: {}; give another --log-dir", path_.string(),
                      std::strerror(errno));
  }
}

std::filesystem::path LogDirectory::make_attempt(int attempt) const {
  std::filesystem::path path = path_ / fmt::format("attempt_{}", attempt);
  make_own_directory(path);
  return path;
}

LogFile::LogFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_own_file(path_)) {}

std::string LogFile::write(std::string_view bytes) {
  while (file_.is_open() && !bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const std::string reason = std::strerror(errno);
      file_.close();
      return fmt::format("{}: cannot be written: {}", path_.string(), reason);
    }
  }
  return "";
}

std::string new_run_name() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("{}-{}", std::string_view(text.data(), size), random_digits(kNameDigits));
}

}  // namespace phalanx::launch
