#pragma once
// A stack with a place in it where a computation stops and goes on.

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace phalanx::cuda {

struct Fiber {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  std::byte* stack = nullptr;  // its lowest byte; null for the thread that fibers began from
  std::size_t stack_bytes = 0;
  void* tsan = nullptr;        // ThreadSanitizer's thread
  void* fake_stack = nullptr;  // AddressSanitizer's, while it is not running
};

// The fiber begins in `entry`, which never returns, when it is first gone to.
void make_fiber(Fiber& fiber, std::byte* stack, std::size_t stack_bytes, void (*entry)());
// Stops here and goes on there. For ThreadSanitizer a switch orders nothing.
void go(Fiber& from, Fiber& to);
// The first thing that a fiber's entry does.
void finish_first_switch(Fiber& self);

}  // namespace phalanx::cuda
