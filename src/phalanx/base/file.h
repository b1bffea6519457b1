#pragma once
// Memory maps (mapped_file.h), whole reads, and durable writes (write, fsync, rename, fsync of the
// directory). Errors name the path: InputMissingError if the file does not exist, otherwise IoError
// or OutputError.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/mapped_file.h"

namespace phalanx {

std::string read_file(const std::filesystem::path& path);

// A file that appears under its name only when complete and on disk. Bytes go to a private
// temporary file beside it: `path` + ".tmp." and 16 random digits, locked while its writer lives.
// commit() syncs, renames and syncs the directory. Without commit the destructor removes the
// temporary file; the next writer of the same path removes that of a killed writer.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  void write_behind();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;
  std::int64_t begun_ = 0;  // bytes that are written or being written to the disk
};

void write_file_durably(const std::filesystem::path& path, std::string_view text);
// Syncs the entries of a directory. Does nothing if the file system cannot sync directories.
void sync_directory(const std::filesystem::path& path);

// Creates `path` and its missing parents. Each directory is synced into its parent before the next
// one is created. OutputError if a path is no directory.
void create_directories_durably(const std::filesystem::path& path);

}  // namespace phalanx
