#include "phalanx/ops/cpu/device.h"

#include <unistd.h>

namespace phalanx::cpu {

Caches caches_of_machine() {
  Caches caches;
#if defined(_SC_LEVEL1_DCACHE_ASSOC) && defined(_SC_LEVEL2_CACHE_SIZE)
  if (const long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC); ways > 0) {
    caches.first_level_ways = static_cast<int>(ways);
  }
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) {
    caches.second_level_bytes = bytes;
  }
#endif
  return caches;
}

CpuDevice make_device(int threads, ProductPrecision products) {
  return {threads, products, caches_of_machine()};
}

}  // namespace phalanx::cpu
