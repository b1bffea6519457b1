#include "phalanx/metrics/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"

namespace phalanx {

LineFile::LineFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) {
    throw OutputError("{}: cannot create: {}", path_.string(), std::strerror(errno));
  }
  try {
    end_torn_line();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

LineFile::~LineFile() { ::close(descriptor_); }

// A file that cannot be read is left as it is.
void LineFile::end_torn_line() {
  struct stat status {};
  char last = '\n';
  if (::fstat(descriptor_, &status) != 0 || status.st_size == 0) return;
  if (::pread(descriptor_, &last, 1, status.st_size - 1) == 1 && last != '\n') write("");
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const auto put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      throw OutputError("{}: cannot write: {}", path.string(), std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void LineFile::write(std::string line) {
  const FileAccess access("writing", path_);
  line += '\n';
  write_all(descriptor_, line, path_);
}

}  // namespace phalanx
