#include "phalanx/base/random_access_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/input_descriptor.h"
#include "phalanx/base/progress.h"

namespace phalanx {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20;

}  // namespace

RandomAccessFile::RandomAccessFile(const std::filesystem::path& path) : path_(path) {
  const FileAccess access("opening", path);
  file_ = std::make_unique<InputDescriptor>(path);
  size_ = static_cast<std::int64_t>(file_->size());
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&&) noexcept = default;
RandomAccessFile& RandomAccessFile::operator=(RandomAccessFile&&) noexcept = default;
RandomAccessFile::~RandomAccessFile() = default;

void RandomAccessFile::read(std::int64_t offset, std::span<std::byte> to) const {
  FileAccess access("reading", path_);
  while (!to.empty()) {
    const auto most = std::min(to.size(), static_cast<std::size_t>(kPiece));
    const auto got = ::pread(file_->get(), to.data(), most, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw IoError("{}: cannot read beyond byte {}: {}", path_.string(), offset,
                    got == 0 ? "the file became shorter" : std::strerror(errno));
    }
    to = to.subspan(static_cast<std::size_t>(got));
    offset += got;
    access.moved(got);
  }
}

void RandomAccessFile::visit(std::int64_t offset, std::int64_t bytes,
                             const std::function<void(std::span<const std::byte>)>& visit) const {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(bytes, kPiece)));
  for (std::int64_t done = 0; done < bytes; done += kPiece) {
    const auto now =
        std::span(piece).first(static_cast<std::size_t>(std::min(kPiece, bytes - done)));
    read(offset + done, now);
    visit(now);
  }
}

}  // namespace phalanx
