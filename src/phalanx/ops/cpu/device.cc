#include "phalanx/ops/cpu/device.h"

#include <unistd.h>

namespace phalanx::cpu {

Caches caches_of_machine() {
  Caches caches;
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) {
    caches.second_level_bytes = bytes;
  }
#endif
  return caches;
}

Processor this_processor() { return {active_target(), caches_of_machine()}; }

Processor usual_processor(Target target) {
  constexpr std::int64_t kKiB = 1024;
  switch (target) {
    case Target::kScalar:
      break;
    case Target::kAvx2:  // Zen 2 and 3
      return {target, {.second_level_bytes = 512 * kKiB}};
    case Target::kAvx512:      // Skylake-SP and Cascade Lake
    case Target::kAvx512Bf16:  // Zen 4
      return {target, {.second_level_bytes = 1024 * kKiB}};
    case Target::kAmx:  // Sapphire and Emerald Rapids
      return {target, {.second_level_bytes = 2048 * kKiB}};
  }
  return {target, {}};
}

CpuDevice make_device(int threads, ProductPrecision products) {
  return {threads, products, this_processor()};
}

}  // namespace phalanx::cpu
