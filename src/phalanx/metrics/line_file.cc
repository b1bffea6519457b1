#include "phalanx/metrics/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"

namespace phalanx {
namespace {

constexpr std::int64_t kPiece = std::int64_t{64} << 10;

FileDescriptor open_to_append(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.get() < 0) {
    throw OutputError("{}: cannot create: {}", path.string(), std::strerror(errno));
  }
  return file;
}

// What follows the last newline; nothing where the file cannot be read.
std::optional<std::string> last_line(int descriptor, std::int64_t bytes) {
  std::string line;
  while (bytes > 0) {
    std::string piece(static_cast<std::size_t>(std::min(kPiece, bytes)), '\0');
    bytes -= std::ssize(piece);
    if (::pread(descriptor, piece.data(), piece.size(), bytes) != std::ssize(piece)) return {};
    const std::size_t end = piece.rfind('\n');
    line.insert(0, piece, end == std::string::npos ? 0 : end + 1);
    if (end != std::string::npos) break;
  }
  return line;
}

}  // namespace

LineFile::LineFile(const std::filesystem::path& path) : file_(path, open_to_append(path)) {
  end_last_line();
}

// A file that cannot be read is left as it is.
void LineFile::end_last_line() {
  struct stat status {};
  if (::fstat(file_.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto line = last_line(file_.descriptor(), status.st_size);
  if (!line || line->empty()) return;
  if (nlohmann::json::accept(*line)) return write({});
  log_warning("{}: its last line was not written to its end: {} bytes are cut off",
              file_.path().string(), line->size());
  if (::ftruncate(file_.descriptor(), status.st_size - std::ssize(*line)) != 0) write({});
}

}  // namespace phalanx
