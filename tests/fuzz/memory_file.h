#pragma once
// Files in memory, under names that readers of files can open.

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "require.h"

namespace phalanx {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "no file in memory");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  void write(std::string_view text) const {
    const bool is_written =
        ::ftruncate(descriptor_, 0) == 0 &&
        ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    require(is_written, "the file in memory cannot be written");
  }

 private:
  int descriptor_;
};

// A directory in which files in memory have names: for readers that add to a name or look at its
// end.
class NameDirectory {
 public:
  NameDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "phalanx_fuzz_XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "no directory {}", name);
    path_ = name;
  }
  NameDirectory(const NameDirectory&) = delete;
  NameDirectory& operator=(const NameDirectory&) = delete;
  ~NameDirectory() { std::filesystem::remove_all(path_); }

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  void add(std::string_view name, const MemoryFile& file) const {
    std::filesystem::create_symlink(file.path(), path_ / name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace phalanx
