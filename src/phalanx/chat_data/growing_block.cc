#include "phalanx/chat_data/growing_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

FileDescriptor open_unnamed(const std::filesystem::path& directory) {
  if (!directory.empty()) {
    FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.is_open()) return file;
  }
  return FileDescriptor(::memfd_create("phalanx", MFD_CLOEXEC));
}

}  // namespace

GrowingBlock::GrowingBlock(const std::filesystem::path& directory)
    : file_(open_unnamed(directory)), place_(directory.empty() ? "memory" : directory) {
  if (!file_.is_open()) {
    throw OutputError("{}: no room for token ids: {}", place_.string(), std::strerror(errno));
  }
}

void GrowingBlock::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw OutputError("{}: token ids could not be written behind byte {}: {}", place_.string(),
                        size_, std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += written;
  }
}

IndexBlock GrowingBlock::finish() {
  if (size_ == 0) return {};
  const auto bytes = static_cast<std::size_t>(size_);
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) {
    throw OutputError("{}: token ids could not be mapped: {}", place_.string(),
                      std::strerror(errno));
  }
  file_.close();
  return {.bytes = {static_cast<const std::byte*>(memory), bytes},
          .owner = std::shared_ptr<const void>(memory, [bytes](void* p) { ::munmap(p, bytes); }),
          .file = ""};
}

}  // namespace phalanx
