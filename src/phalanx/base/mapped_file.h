#pragma once
// Read-only memory maps, and what becomes of a file that cannot be read any more while it is
// mapped. A map is a view without copies; its price is that a file that someone truncates, or whose
// disk fails, is noticed in the middle of an expression: the system then sends SIGBUS. Reads into
// memory of our own would return an error instead, at the price of a copy of every dataset and
// checkpoint.

#include <cstddef>
#include <filesystem>
#include <span>

namespace phalanx {

// A whole file mapped read-only. Movable; an empty file maps to an empty span. InputMissingError
// where the file is not there, IoError where it cannot be opened.
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

// From here on a mapped file that cannot be read ends the process with one line on standard error
// that names it, and exit status 74 (ErrorCode::kIo). Any other SIGBUS does what it did. Signals
// belong to the command line: nobody else calls this.
void report_unreadable_maps();

}  // namespace phalanx
