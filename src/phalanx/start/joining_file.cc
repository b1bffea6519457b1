#include "phalanx/start/joining_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "phalanx/base/error.h"
#include "phalanx/base/unique_name.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr int kDigits = 32;
constexpr mode_t kMode = 0644;
constexpr auto kPause = std::chrono::milliseconds(100);

bool has_text(const fs::path& path, std::string_view text) {
  // O_NONBLOCK: a pipe is not waited for.
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, kDigits + 1> found{};
  struct stat status {};
  ssize_t size = -1;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    size = ::read(file, found.data(), found.size());
  }
  ::close(file);
  return size >= 0 && std::string_view(found.data(), static_cast<std::size_t>(size)) == text;
}

}  // namespace

JoiningFile::JoiningFile(const fs::path& save)
    : path_(save / kName), text_(random_digits(kDigits)) {
  // Removes the name, not what a link of this name points to; O_EXCL makes sure the file is new.
  ::unlink(path_.c_str());
  const int file =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  bool is_written = false;
  if (file >= 0) {
    is_written = ::write(file, text_.data(), text_.size()) == std::ssize(text_);
    is_written = ::close(file) == 0 && is_written;
  }
  if (is_written) return;
  const int reason = errno;
  if (file >= 0) ::unlink(path_.c_str());
  throw OutputError("--save {}: {} cannot be written: {}", save.string(), path_.string(),
                    std::strerror(reason));
}

JoiningFile::~JoiningFile() { ::unlink(path_.c_str()); }

bool JoiningFile::is_seen(const fs::path& save, const std::string& text,
                          std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!has_text(save / kName, text)) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace phalanx
