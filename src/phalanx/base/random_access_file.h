#pragma once
// A file that is read by position. Where a disk fails or a file became shorter, reading it is an
// error with a name: a mapped file (mapped_file.h) ends the process.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace phalanx {

class InputDescriptor;

// Movable; several threads may read.
class RandomAccessFile {
 public:
  // InputMissingError if the file does not exist, IoError if it cannot be opened.
  explicit RandomAccessFile(const std::filesystem::path& path);
  RandomAccessFile(RandomAccessFile&&) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) noexcept;
  ~RandomAccessFile();

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }  // when it was opened

  // Fills `to` with the bytes from `offset` on. IoError names the file and the byte that could not
  // be read.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  // Passes `bytes` bytes from `offset` on to `visit`, in pieces of some MiB.
  void visit(std::int64_t offset, std::int64_t bytes,
             const std::function<void(std::span<const std::byte>)>& visit) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<InputDescriptor> file_;
  std::int64_t size_ = 0;
};

}  // namespace phalanx
