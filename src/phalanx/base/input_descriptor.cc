#include "phalanx/base/input_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/input_path.h"

namespace phalanx {
namespace {

int open_input(const std::filesystem::path& path) {
  if (const std::string fault = input_fault(path); !fault.empty()) {
    throw InputMissingError("{}: {}", path.string(), fault);
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  if (errno == ENOENT || errno == ENOTDIR) {
    throw InputMissingError("{}: no such file", path.string());
  }
  throw IoError("{}: cannot open: {}", path.string(), std::strerror(errno));
}

}  // namespace

InputDescriptor::InputDescriptor(const std::filesystem::path& path)
    : descriptor_(open_input(path)) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw IoError("{}: has just become something else", path.string());
  }
  size_ = static_cast<std::size_t>(status.st_size);
}

}  // namespace phalanx
