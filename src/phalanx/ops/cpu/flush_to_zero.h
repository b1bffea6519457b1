#pragma once
// Subnormal numbers are zeros, as operands and as results, on every thread that computes: part of
// the numerics. Adam's moments of a row without gradients shrink until they are subnormal, and with
// such numbers processors are many times slower.

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace phalanx::cpu {

// Sets this mode on the thread that makes it; the destructor restores the mode before. A new thread
// inherits the mode of its maker, so every parallel region sets it for its own threads. Processors
// other than x86-64 are left as they are.
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
  // Loads and stores stay on their side.
  static void keep_order() { asm volatile("" ::: "memory"); }

  unsigned before_;
#else
  FlushToZero() {}
  ~FlushToZero() {}
#endif
};

}  // namespace phalanx::cpu
