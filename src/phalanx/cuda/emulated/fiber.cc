#include "phalanx/cuda/emulated/fiber.h"

#include <cstdint>

#include "phalanx/cuda/emulated/sanitizer.h"

#if defined(__x86_64__)
// Saves what a callee must keep and the place to return to, then takes them from the other stack.
asm(R"(
.text
.globl phalanx_switch_stack
.hidden phalanx_switch_stack
.type phalanx_switch_stack, @function
phalanx_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size phalanx_switch_stack, .-phalanx_switch_stack
)");
extern "C" void phalanx_switch_stack(void** from, void* to);
#endif

namespace phalanx::cuda {
namespace {

#if PHALANX_ASAN
// Who was left last, to learn the bounds of the first thread's stack.
Fiber* left = nullptr;

void finish_switch(Fiber& self) {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
  if (left->stack == nullptr) {
    left->stack = static_cast<std::byte*>(const_cast<void*>(bottom));
    left->stack_bytes = bytes;
  }
}
#else
void finish_switch(Fiber& /*self*/) {}
#endif

}  // namespace

void make_fiber(Fiber& fiber, std::byte* stack, std::size_t stack_bytes, void (*entry)()) {
  fiber.stack = stack;
  fiber.stack_bytes = stack_bytes;
  fiber.fake_stack = nullptr;
  tell_unpoison(stack, stack_bytes);
#if defined(__x86_64__)
  // As if `entry` had been called: the stack pointer is 8 beyond a multiple of 16 behind the jump.
  auto* top = reinterpret_cast<std::uintptr_t*>(stack + stack_bytes) - 1;
  top[0] = 0;  // the end of a backtrace
  top[-1] = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 2; i <= 7; ++i) top[-i] = 0;
  fiber.stack_pointer = top - 7;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#endif
}

void go(Fiber& from, Fiber& to) {
#if PHALANX_TSAN
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if PHALANX_ASAN
  left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(__x86_64__)
  phalanx_switch_stack(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
  finish_switch(from);
}

void finish_first_switch(Fiber& self) { finish_switch(self); }

}  // namespace phalanx::cuda
