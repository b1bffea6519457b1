#pragma once
// Files: memory maps (mapped_file.h), whole reads, and durable writes (write, fsync, rename, fsync
// of the directory). Errors name the path: InputMissingError where the file is not there, IoError
// and OutputError otherwise.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/mapped_file.h"

namespace phalanx {

std::string read_file(const std::filesystem::path& path);

// A file that appears under its name only when it is complete and on disk. Bytes go to a temporary
// file beside it that nobody else has: `path` + ".tmp." and 16 random digits. commit() syncs,
// renames and syncs the directory. Destroyed without commit, the temporary file is removed; one
// whose writer was killed is removed by the next writer of the same path. (A writer that lives
// holds a lock on its own.)
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
  std::int64_t begun_ = 0;  // bytes that are on their way to the disk, or there
};

void write_file_durably(const std::filesystem::path& path, std::string_view text);
// What a directory lists is on disk. A file system that cannot sync directories is not an error.
void sync_directory(const std::filesystem::path& path);

// `path` and what is missing of its parents. Every directory that is made is on disk, in its
// parent's list, before the next one is. OutputError where something else is in its place.
void create_directories_durably(const std::filesystem::path& path);

}  // namespace phalanx
