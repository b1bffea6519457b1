#pragma once
// Read-only memory maps, and how a mapped file reports that it became unreadable. A map needs no
// copy. But if a file is truncated or its disk fails, the system sends SIGBUS at any access. Reads
// into our memory would return an error, but copy every dataset and checkpoint.

#include <cstddef>
#include <filesystem>
#include <span>

namespace phalanx {

// A whole file mapped read-only. Movable; an empty file maps to an empty span. InputMissingError if
// the file does not exist, IoError if it cannot be opened.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::filesystem::path path_;
};

// Afterwards a mapped file that cannot be read ends the process with exit status 74
// (ErrorCode::kIo) and one line on standard error that names the file. Other SIGBUS are unchanged.
// Only the command line calls this, because it owns signals.
void report_unreadable_maps();

}  // namespace phalanx
