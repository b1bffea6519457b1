#pragma once
// What sanitizers have reported, for tests of what they must and must not see. Include in one file
// of a program: it sets ThreadSanitizer's defaults.

#include <atomic>

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kUnderAddressSanitizer = true;
#else
inline constexpr bool kUnderAddressSanitizer = false;
#endif

namespace phalanx::cuda {

// Races that ThreadSanitizer has reported since the last call; 0 without it.
inline std::atomic<int>& race_count() {
  static std::atomic<int> count = 0;
  return count;
}
inline int take_races() { return race_count().exchange(0); }

}  // namespace phalanx::cuda
