#pragma once
// The files of one checkpoint, by name, wherever they lie: in a directory, or in memory that
// outlives the processes of a run (memory_files.h). A copy on another host would be a third place.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/random_access_file.h"

namespace phalanx {

// A file of a checkpoint: a range of one of the system's files.
class StoredFile {
 public:
  // All of it.
  explicit StoredFile(RandomAccessFile file);
  // `name` is used in messages.
  StoredFile(RandomAccessFile file, std::int64_t begin, std::int64_t bytes, std::string name);

  std::int64_t size() const { return bytes_; }
  const std::string& name() const { return name_; }  // its path, or what stands for one
  // IoError names the file and the byte that could not be read.
  void read(std::int64_t offset, std::span<std::byte> to) const { file_.read(begin_ + offset, to); }
  std::string text() const;

 private:
  RandomAccessFile file_;
  std::int64_t begin_ = 0;
  std::int64_t bytes_ = 0;
  std::string name_;
};

class CheckpointFiles {
 public:
  CheckpointFiles() = default;
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;
  virtual ~CheckpointFiles() = default;

  // For messages: of the place, and of a file there.
  virtual std::string place() const = 0;
  virtual std::string path(std::string_view name) const = 0;
  // InputMissingError, IoError.
  virtual StoredFile open(std::string_view name) const = 0;
};

std::unique_ptr<const CheckpointFiles> files_of_directory(const std::filesystem::path& directory);

}  // namespace phalanx
