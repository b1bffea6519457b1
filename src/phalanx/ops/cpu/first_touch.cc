#include "phalanx/ops/cpu/first_touch.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/parallel.h"

namespace phalanx::cpu {

void touch_first(int threads, const Arena& arena) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t pages = (arena.capacity() + page - 1) / page;
  std::byte* const base = arena.base();
  // Not to be left out as a store of what is there already.
  parallel_for(threads, pages, [=](std::int64_t i) {
    *static_cast<volatile std::byte*>(base + i * page) = std::byte{0};
  });
}

}  // namespace phalanx::cpu
