#pragma once
// Descriptors that wake a thread in poll().

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "phalanx/base/error.h"

namespace phalanx::ucx {

// Owns a descriptor; SystemError where there was none to get.
class Descriptor {
 public:
  Descriptor(int descriptor, const char* what) : descriptor_(descriptor) {
    if (descriptor < 0) throw SystemError("{}: {}", what, std::strerror(errno));
  }
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Readable from signal() on, for good.
class Alarm {
 public:
  Alarm() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd") {}
  void signal() const noexcept { eventfd_write(descriptor_.get(), 1); }
  int descriptor() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
};

// Readable some time after it was set, until it is cleared.
class Timer {
 public:
  Timer() : descriptor_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd") {}
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
  Descriptor descriptor_;
};

}  // namespace phalanx::ucx
