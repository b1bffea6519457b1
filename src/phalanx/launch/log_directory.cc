#include "phalanx/launch/log_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/unique_name.h"

namespace phalanx::launch {
namespace {

constexpr mode_t kOwnDirectory = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr int kNameDigits = 6;
constexpr auto kStuck = std::chrono::seconds(1);

// It must belong to this user or to root.
void check_owner(const struct stat& status, const std::filesystem::path& path) {
  if (status.st_uid == ::geteuid() || status.st_uid == 0) return;
  throw OutputError("{}: belongs to user {}, and this is user {}'s run; give another --log-dir",
                    path.string(), status.st_uid, ::geteuid());
}

// Makes a directory, or takes an existing one of this user. A link is refused.
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

// A link is refused: otherwise anybody who may write in the directory could choose the file.
// O_NONBLOCK: a pipe in its place is refused, not waited for.
FileDescriptor open_own_file(const std::filesystem::path& path) {
  constexpr int kFlags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  FileDescriptor file(::open(path.c_str(), kFlags, kOwnFile));
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

std::filesystem::path make_run_directory(const std::filesystem::path& directory,
                                         const std::string& run) {
  std::filesystem::path path = directory / run;
  create_directories_durably(directory);
  make_own_directory(path);
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    throw OutputError("{}: cannot be written: {}; give another --log-dir", path.string(),
                      std::strerror(errno));
  }
  return path;
}

}  // namespace

LogDirectory::LogDirectory(const std::filesystem::path& directory, const std::string& run, int node)
    : path_(make_run_directory(directory, run)),
      lock_(path_, fmt::format("--rdzv-id {} is taken: the folder", run),
            fmt::format(".node_{}.lock", node)) {}

std::filesystem::path LogDirectory::make_attempt(int attempt) const {
  std::filesystem::path path = path_ / fmt::format("attempt_{}", attempt);
  make_own_directory(path);
  return path;
}

LogFile::LogFile(std::filesystem::path path, BackgroundWriter& writer, std::size_t most_bytes)
    : path_(std::move(path)) {
  const FileDescriptor file = open_own_file(path_);
  output_ = writer.add(file.get(),
                       {.most_bytes = most_bytes, .reason = "the disk of --log-dir was too slow"},
                       /*at_once=*/false);
}

void LogFile::write(std::string_view bytes) const {
  if (output_) output_.write(bytes);
}

bool LogFile::should_wait() const {
  return output_ && output_.is_full() && output_.stuck_for() < kStuck;
}

std::string LogFile::take_fault() {
  if (!output_ || fault_taken_) return "";
  const std::string reason = output_.fault();
  fault_taken_ = !reason.empty();
  return fault_taken_ ? fmt::format("{}: cannot be written: {}", path_.string(), reason) : "";
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
