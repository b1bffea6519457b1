#pragma once
// What the emulated machine and driver, which no sanitizer instruments, tell them of what they do.

#include <cstddef>

#if defined(__SANITIZE_THREAD__) || defined(PHALANX_TELL_TSAN)
#define PHALANX_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define PHALANX_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(PHALANX_TELL_ASAN)
#define PHALANX_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define PHALANX_ASAN 0
#endif

namespace phalanx::cuda {

// What was done before release(x) happened before what comes after acquire(x).
inline void tell_release([[maybe_unused]] void* at) {
#if PHALANX_TSAN
  __tsan_release(at);
#endif
}
inline void tell_acquire([[maybe_unused]] void* at) {
#if PHALANX_TSAN
  __tsan_acquire(at);
#endif
}
inline void tell_poison([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if PHALANX_ASAN
  __asan_poison_memory_region(at, bytes);
#endif
}
inline void tell_unpoison([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if PHALANX_ASAN
  __asan_unpoison_memory_region(at, bytes);
#endif
}

}  // namespace phalanx::cuda
