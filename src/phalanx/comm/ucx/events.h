#pragma once
// File descriptors that wake a thread in poll().

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/file_descriptor.h"

namespace phalanx::ucx {

inline FileDescriptor checked_descriptor(int descriptor, const char* what) {
  if (descriptor < 0) throw SystemError("{}: {}", what, std::strerror(errno));
  return FileDescriptor(descriptor);
}

// Readable from signal() on, for ever.
class Alarm {
 public:
  Alarm() : descriptor_(checked_descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}
  void signal() const noexcept { eventfd_write(descriptor_.get(), 1); }
  int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
};

// Readable when the time has passed that it was set to, until it is cleared.
class Timer {
 public:
  Timer()
      : descriptor_(checked_descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                                       "timerfd")) {}
  void set(std::chrono::microseconds after) const noexcept {
    itimerspec spec{};
    spec.it_value.tv_nsec = std::chrono::nanoseconds(after).count();
    timerfd_settime(descriptor_.get(), 0, &spec, nullptr);
  }
  void clear() const noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = read(descriptor_.get(), &count, sizeof count);
  }
  int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
};

}  // namespace phalanx::ucx
