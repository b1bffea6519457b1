#pragma once
// An open input file.

#include <unistd.h>

#include <cstddef>
#include <filesystem>

namespace phalanx {

// An open descriptor and its size. All errors of opening an input are thrown here:
// InputMissingError where there is no regular file, IoError where it cannot be opened.
class InputDescriptor {
 public:
  explicit InputDescriptor(const std::filesystem::path& path);
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
