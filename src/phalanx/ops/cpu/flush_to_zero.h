#pragma once
// Subnormal numbers are zeros, as operands and as results, on every computing thread. This is part
// of the numerics. Adam's moments of a row without gradients shrink until they are subnormal, and
// processors are many times slower with such numbers.

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace phalanx::cpu {

// Sets this mode on the constructing thread; the destructor restores the previous mode. A new
// thread inherits its creator's mode, so every parallel region sets it for its own threads. Does
// nothing on processors other than x86-64.
class FlushToZero {
 public:
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
#if defined(__x86_64__)
  FlushToZero() : before_(_mm_getcsr()) {
    if ((before_ & kBits) != kBits) _mm_setcsr(before_ | kBits);
    keep_order();
  }
  ~FlushToZero() {
    keep_order();
    if ((before_ & kBits) != kBits) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kBits = 0x8040;  // flush to zero, denormals are zeros
  // The compiler must not move loads and stores across a change of mode.
  static void keep_order() { asm volatile("" ::: "memory"); }

  unsigned before_;
#else
  FlushToZero() {}
  ~FlushToZero() {}
#endif
};

}  // namespace phalanx::cpu
