#pragma once
// A block of bytes that is made piece by piece and may be larger than memory: it lies in a file
// without a name, which the system frees with its last owner.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/data/index_cache.h"

namespace phalanx {

class GrowingBlock {
 public:
  // A file in `directory`; in memory where that is empty, or where its file system has no files
  // without names. OutputError where there can be neither.
  explicit GrowingBlock(const std::filesystem::path& directory);

  // OutputError where there is no room.
  void append(std::span<const std::byte> bytes);
  std::int64_t size() const { return size_; }
  // All of it, mapped. Nothing can be appended afterwards.
  IndexBlock finish();

 private:
  FileDescriptor file_;
  std::filesystem::path place_;  // for messages
  std::int64_t size_ = 0;
};

}  // namespace phalanx
