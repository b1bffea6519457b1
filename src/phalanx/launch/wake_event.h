#pragma once
// A descriptor that one thread makes readable for another.

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/file_descriptor.h"

namespace phalanx::launch {

class WakeEvent {
 public:
  WakeEvent() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!descriptor_.is_open()) {
      throw SystemError("no descriptor for an event: {} (see ulimit -n)", std::strerror(errno));
    }
  }
  int descriptor() const { return descriptor_.get(); }
  void set() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(descriptor_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(descriptor_.get(), &count, sizeof count);
  }

 private:
  FileDescriptor descriptor_;
};

}  // namespace phalanx::launch
