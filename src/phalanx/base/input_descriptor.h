#pragma once
// An open input file.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "phalanx/base/error.h"

namespace phalanx {

// An open descriptor and its size. All errors of opening an input are thrown here.
class InputDescriptor {
 public:
  explicit InputDescriptor(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      if (errno == ENOENT || errno == ENOTDIR) {
        throw InputMissingError("{}: no such file", path.string());
      }
      throw IoError("{}: cannot open: {}", path.string(), std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw IoError("{}: not a regular file", path.string());
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  InputDescriptor(const InputDescriptor&) = delete;
  InputDescriptor& operator=(const InputDescriptor&) = delete;
  ~InputDescriptor() { ::close(descriptor_); }

  int get() const { return descriptor_; }
  std::size_t size() const { return size_; }

 private:
  int descriptor_;
  std::size_t size_ = 0;
};

}  // namespace phalanx
